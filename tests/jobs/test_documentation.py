"""The commands in the documentation run as printed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.actions.receivers import http, smtp
from tests.gateway import Gateway
from tests.jobs.code_blocks import BASH
from tests.jobs.starting import ROOT, TRAININGS, Jobs, environment


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout's folder in which a reader types commands."""
    made = tmp_path_factory.mktemp("checkout")
    (made / "examples").symlink_to(ROOT / "examples")
    bin_folder = made / "bin"
    bin_folder.mkdir()
    # `holter` and `python` as an activated environment has them.
    python = f'"{sys.executable}"'
    programs = {
        "holter": f"{python} -m holter",
        "python": python,
        "torchrun": f"{python} -m torch.distributed.run",
    }
    for name, words in programs.items():
        (bin_folder / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        (bin_folder / name).chmod(0o755)
    return made


def typed(folder: Path, script: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run shell lines in the folder."""
    env = environment(**more, PATH=f"{folder / 'bin'}:{os.environ['PATH']}", TMPDIR=str(folder))
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.slow
def test_acting_on_issues_as_written(folder: Path, tmp_path: Path) -> None:
    page = (ROOT / "docs/how-to/act-on-issues.md").read_text()
    (folder / "train.py").write_text((TRAININGS / "lost.py").read_text())
    with smtp(tmp_path, "starttls", "me", "pass-word-pass") as box, http() as hook:
        variables = {
            "HOOK_URL": f"{hook.url}/services/x",
            "SMTP_HOST": "localhost",
            "SMTP_PORT": str(box.port),
            "SMTP_USER": "me",
            "SMTP_PASSWORD": "pass-word-pass",
            "SMTP_FROM": "me@example.org",
            "SMTP_CA_FILE": str(tmp_path / "cert.pem"),
        }
        done = typed(folder, "".join(BASH.findall(page)), **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    told = [json.loads(body) for *_, body in hook.requests]
    assert any("NonFiniteLoss" in one.get("text", "") for one in told), "Slack was not told"
    assert any(one.get("type") == "training.rule.state_change" for one in told)
    assert [recipients for _, recipients, _ in box.mails] == [["jane@example.org", "ops@example.org"]]
    assert '"rule": "NonFiniteLoss"' in done.stdout, "the command and the log got the finding"


@pytest.mark.slow
def test_a_job_in_an_object_store_as_written(folder: Path, gateway: Gateway) -> None:
    page = (ROOT / "docs/how-to/store-in-s3.md").read_text()
    (folder / "train.py").write_text((TRAININGS / "plain.py").read_text())
    gateway.bucket("my-bucket")
    variables = {**gateway.variables, "XDG_CACHE_HOME": str(folder / "cache")}
    done = typed(folder, "".join(BASH.findall(page)), **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "recording job first into s3://my-bucket/trainings\n" in done.stderr
    assert re.search(r"^\d+ steps$", done.stdout, re.MULTILINE)
    assert "Deleted 1 job" in done.stdout


@pytest.mark.slow
def test_one_job_over_several_nodes_as_written(folder: Path) -> None:
    page = (ROOT / "docs/how-to/several-nodes.md").read_text()
    (folder / "train.py").write_text((TRAININGS / "ddp.py").read_text())
    done = typed(folder, "".join(BASH.findall(page)))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.count("holter: recording job both into") == 2
    assert "ranks: 0, 1" in done.stdout
    assert re.search(
        r"node node1: .*; Completed; rank 1; clock against node node0: ", " ".join(done.stdout.split())
    )


def test_own_loop_example(jobs: Jobs) -> None:
    script = str(ROOT / "examples/own_loop/train.py")
    alone = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=True, env=environment()
    )
    done = jobs.run(sys.executable, script)
    assert done.code == 0, done.stderr
    assert done.stdout == alone.stdout
    told = done.describe()
    assert told["steps"]["count"] == 200
    assert "propose" in set(done.table("spans")["name"])
    assert "distance" in set(done.table("scalars")["name"])


@pytest.mark.slow
def test_the_first_command_of_the_readme(tmp_path: Path) -> None:
    if not (Path(sys.prefix) / "ready").is_file():
        pytest.skip("this environment was not made by scripts/setup, which the command would start anew")
    env = environment(HOLTER_VENV=sys.prefix, HOLTER_STORE=str(tmp_path / "store"))
    words = {"cwd": tmp_path, "env": env, "capture_output": True, "text": True, "timeout": 600}
    # The demo trains for 25 s where nothing is said.
    done = subprocess.run([str(ROOT / "scripts/try"), "--seconds", "8"], check=False, **words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Data loading takes" in done.stderr
    assert "advice" in done.stderr


@pytest.mark.slow
def test_comparing_and_reporting_as_written(folder: Path) -> None:
    page = (ROOT / "docs/how-to/compare-and-report.md").read_text()
    (folder / "train.py").write_text(
        "import sys, time\n"
        "import holter\n"
        "for _ in range(80):\n"
        "    with holter.step():\n"
        "        time.sleep(0.005 if '--workers' in sys.argv else 0.05)\n"
    )
    done = typed(folder, "".join(BASH.findall(page)))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "less time" in done.stdout
    assert "pass: " in done.stdout
    assert "changed: command" in done.stdout
    assert (folder / "after.html").read_text().count("<svg") >= 3
    assert json.loads((folder / "after.ipynb").read_text())["cells"]


@pytest.mark.slow
def test_watching_live_as_written(folder: Path) -> None:
    page = (ROOT / "docs/how-to/watch-live.md").read_text()
    (folder / "train.py").write_text(
        "import time, holter\nfor _ in range(80):\n    with holter.step():\n        time.sleep(0.01)\n"
    )
    done = typed(folder, "".join(BASH.findall(page)))
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"name": "live"' in done.stdout
    assert '"kind":"lines"' in done.stdout
    assert 'holter_jobs{status="Completed"}' in done.stdout
    assert (folder / "live.html").read_text().startswith("<!doctype html>")
