"""A job that dies, raises an exception, hangs or learns nothing: card and record name the failure."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from tests.jobs.starting import TRAININGS, Jobs, environment, here


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
@pytest.mark.parametrize("end", ["stop", "interrupt"])
def test_hanging(jobs: Jobs, end: str) -> None:
    store = ("--store", str(jobs.store))
    command = [sys.executable, "-m", "holter", "run", *store, "--job", "hanging", "--hang-after", "2", "--"]
    command += [sys.executable, str(TRAININGS / "plain.py"), "--trouble", "hang", "--at", "40"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment(), start_new_session=True, **pipes) as run:
        live = None
        until = time.monotonic() + 180
        while time.monotonic() < until and not live:
            time.sleep(0.5)
            asked = here("describe", "hanging", "--json", *store, check=False)
            live = json.loads(asked.stdout)["job"]["headline"] if asked.returncode == 0 else None
        if end == "stop":
            here("stop", "hanging", *store)
        else:
            os.killpg(run.pid, signal.SIGINT)
        _, card = run.communicate(timeout=180)
    assert live is not None, "a minute passed and nobody noticed"
    assert live.startswith("Hangs in step 40 while in forward (rank 0)")
    assert "go_wrong" in live, "nobody says where it hangs"
    said = card[: card.index("── holter")]
    assert re.search(
        r"^holter: no progress for \d+ s in step 40: rank 0 in forward.*go_wrong", said, re.MULTILINE
    )
    leads = card[card.index("── holter") :].splitlines()[1]
    assert leads.strip().startswith("Hung in step 40 while in forward (rank 0)")


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


def test_a_framework_that_was_imported_only_is_named(jobs: Jobs) -> None:
    done = jobs.run(sys.executable, "-c", "import torch\nraise FileNotFoundError('data.pt')")
    told = done.describe()["job"]
    assert told["framework"]["name"] == "pytorch"
    assert "used" not in told["framework"]
    assert "data.pt" in told["failure"]["exception"]
