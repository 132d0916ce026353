"""A job that dies, raises, hangs or learns nothing: the card leads with it and the record ends with it."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest
from tests.jobs.starting import TRAININGS, Jobs, environment, holter


def lead(card: str) -> str:
    """Return what the card says first: the part of the output after the job's own end."""
    return card[card.index("holter") :]


def test_killed(jobs: Jobs) -> None:
    done = jobs.train("plain.py", "--trouble", "kill", "--at", "40")
    assert done.code == 128 + 9
    told = done.describe()
    assert told["job"]["status"] == "Failed"
    assert told["job"]["signal"] in (9, "SIGKILL")
    failure = told["job"]["failure"]
    assert (failure["step"], failure["phase"], failure["rank"]) == (40, "forward", 0)
    assert failure["kind"] == "signal"
    assert told["steps"]["count"] == 40, "a finished step was lost"
    assert "SIGKILL" in done.stderr
    assert "step 40" in done.stderr
    assert "forward" in done.stderr


def test_raising(jobs: Jobs) -> None:
    done = jobs.train("plain.py", "--trouble", "raise", "--at", "40")
    assert done.code == 1
    assert "RuntimeError: the seventh layer is missing" in done.stderr, "the traceback is the command's own"
    failure = done.describe()["job"]["failure"]
    assert failure["kind"] == "exception"
    assert (failure["step"], failure["phase"], failure["rank"]) == (40, "forward", 0)
    assert "the seventh layer is missing" in failure["exception"]


@pytest.mark.slow
def test_hanging(jobs: Jobs) -> None:
    job = "hanging"
    command = [
        sys.executable,
        "-m",
        "holter",
        "run",
        "--store",
        str(jobs.store),
        "--job",
        job,
        "--hang-after",
        "2",
        "--",
    ]
    command += [sys.executable, str(TRAININGS / "plain.py"), "--trouble", "hang", "--at", "40"]
    with subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        told: dict = {}
        end = time.monotonic() + 60
        while time.monotonic() < end and not (told.get("job") or {}).get("failure"):
            time.sleep(0.5)
            asked = holter("describe", job, "--json", "--store", str(jobs.store), check=False)
            told = json.loads(asked.stdout) if asked.returncode == 0 else {}
        holter("stop", job, "--store", str(jobs.store))
        _, card = run.communicate(timeout=30)
    failure = told["job"]["failure"]
    assert failure["kind"] == "hang"
    assert (failure["step"], failure["phase"], failure["rank"]) == (40, "forward", 0)
    assert "hang" in card or "no progress" in card
    assert "go_wrong" in card or "go_wrong" in json.dumps(told), "nobody says where it hangs"


def test_loss_that_turns_nan(jobs: Jobs) -> None:
    done = jobs.train("plain.py", "--trouble", "nan", "--at", "40")
    assert done.code == 0
    told = done.describe()
    fired = {rule["name"]: rule for rule in told["rules"] if rule["status"] == "IssuesFound"}
    issue = fired["NonFiniteLoss"]["issues"][0]
    assert issue["severity"] == "critical"
    assert issue["step_start"] == 40
    assert "NaN" in done.stderr
    assert "step 40" in done.stderr
