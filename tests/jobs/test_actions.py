"""Actions on issues of real trainings."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.actions.receivers import http, smtp
from tests.jobs.starting import TRAININGS, Jobs, here

SECRETS = {
    "password": "correct-horse-battery",
    "path": "T0001-B0002-hookhookhook",
    "token": "gateway-token-4711",
    "key": "signing-key-0815",
}


@pytest.mark.slow
def test_a_rule_stops_a_training_and_the_record_names_it(jobs: Jobs) -> None:
    # It would take minutes.
    done = jobs.train(
        "plain.py",
        *("--trouble", "nan", "--steps", "60000", "--batch", "4", "--width", "8", "--device-ms", "10"),
        options=("--no-rules", "--rule", "NonFiniteLoss", "--action", "stop:on=NonFiniteLoss,grace_s=10"),
    )
    assert done.code == 143, done.stderr
    told = done.describe()
    assert told["job"]["status"] == "Stopped"
    assert told["job"]["failure"] is None
    assert told["job"]["duration_s"] < 300
    assert told["job"]["stopped_by"]["rule"] == "NonFiniteLoss"
    assert told["job"]["headline"].startswith("Stopped by rule NonFiniteLoss at step 40.")
    (rule,) = told["rules"]
    assert [action["result"] for action in rule["issues"][0]["actions"]] == ["ok"]
    assert "Stopped by rule NonFiniteLoss at step 40" in done.stderr
    shown = here("describe", done.job, "--store", str(jobs.store)).stdout
    assert "stop_training: ok: told job job-0 to stop" in shown


@pytest.mark.slow
def test_everybody_is_told_and_no_secret_is_kept(jobs: Jobs, tmp_path: Path) -> None:
    with smtp(tmp_path, "starttls", "me", SECRETS["password"]) as box, http() as hook, http() as gateway:
        box.refuse = [b"451 later"]
        hook.answers = [(404, {}, f"unknown path /{SECRETS['path']}".encode())]
        surroundings = {
            "SMTP_HOST": "localhost",
            "SMTP_PORT": str(box.port),
            "SMTP_USER": "me",
            "SMTP_PASSWORD": SECRETS["password"],
            "SMTP_FROM": "holter@example.org",
            "SMTP_CA_FILE": str(tmp_path / "cert.pem"),
            "HOOK_URL": f"{hook.url}/{SECRETS['path']}",
            "HOOK_KEY": SECRETS["key"],
            "SMS_GATEWAY_URL": gateway.url,
            "SMS_GATEWAY_TOKEN": SECRETS["token"],
            "TMPDIR": str(tmp_path),
        }
        lines = (
            "email:to=Jane.Doe@example.org,severity=critical",
            "webhook:url_env=HOOK_URL,secret_env=HOOK_KEY,on=NonFiniteLoss",
            "sms:to=+491701234567,on=NonFiniteLoss",
            "stop_training",
        )
        options = [word for line in lines for word in ("--action", line)]
        done = jobs.run(
            *(sys.executable, str(TRAININGS / "lost.py")),
            options=("--no-rules", "--rule", "NonFiniteLoss", *options),
            env=surroundings,
        )
    assert done.code == 0, done.stderr
    (issue,) = done.describe()["rules"][0]["issues"]
    results = {action["name"]: (action["result"], action["text"]) for action in issue["actions"]}
    assert results == {
        "email": ("ok", "mailed to Jane.Doe@example.org"),
        "webhook": ("failed", "HTTP 404: unknown path ***"),
        "sms": ("ok", "texted to +491701234567 (HTTP 200)"),
        "stop_training": ("failed", "the job has ended already"),
    }
    assert "loss became NaN" in box.mails[0][2]
    assert json.loads(gateway.requests[0][3])["to"] == "+491701234567"
    everything = [path for path in jobs.store.rglob("*") if path.is_file()]
    assert everything
    texts = [path.read_bytes() for path in everything]
    texts += [done.stdout.encode(), done.stderr.encode(), json.dumps(done.describe()).encode()]
    for name, secret in SECRETS.items():
        assert not any(secret.encode() in text for text in texts), f"the {name} is in the store or was shown"
