"""A job beside other programs is not called a regression, and a slower job still is one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from tests.jobs.starting import Finished, Jobs, here

BUSY = [sys.executable, "-c", "while True:\n    pass"]
OPTIONS = ("--interval", "100ms", "--no-rules")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finished]:
    """Three jobs: as it is, the same beside busy processes, and with more work in each step."""
    jobs = Jobs(tmp_path_factory.mktemp("compared") / "store")
    found = {"quiet": jobs.train("works.py", "400", "5", "0", options=OPTIONS)}
    busy = [subprocess.Popen(BUSY) for _ in range(2 * len(os.sched_getaffinity(0)))]
    try:
        found["beside"] = jobs.train("works.py", "400", "5", "0", options=OPTIONS)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    found["slower"] = jobs.train("works.py", "150", "5", "15", options=OPTIONS)
    return found


def checked(recorded: dict[str, Finished], baseline: str, job: str) -> tuple[int, dict[str, Any]]:
    before, after = recorded[baseline], recorded[job]
    words = ["check", before.job, after.job, "--store", str(after.store)]
    done = here(*words, "--json", check=False)
    return done.returncode, json.loads(done.stdout)


def test_the_same_job_beside_busy_processes_cannot_be_judged(recorded: dict[str, Finished]) -> None:
    code, told = checked(recorded, "quiet", "beside")
    assert (code, told["result"]) == (6, "disturbed"), told
    assert "not comparable by wall time" in told["sentence"]
    if told["conditions"]["after"]["waited_pct"] is None:  # the agent got no core either
        assert told["disturbance"]["after"] == ["unread"]
        assert "the conditions of" in told["sentence"]
        return
    assert told["disturbance"]["after"] == ["cores"]
    assert told["conditions"]["after"]["waited_pct"] > 20
    assert told["disturbance"]["cpu_ratio"] == pytest.approx(1, abs=0.15)
    for text in ("of its time for a core", "CPU times are about equal"):
        assert text in told["sentence"]


def test_sleep_in_each_step_is_a_regression(recorded: dict[str, Finished]) -> None:
    code, told = checked(recorded, "quiet", "slower")
    slowed = told["disturbance"] is not None and told["disturbance"]["after"]
    assert code == 1 or (slowed and code == 6), told
    assert told["conditions"]["after"]["cpu_ms"] == pytest.approx(5, rel=0.2)
    # On a machine that is quiet again, a job is slower than a disturbed baseline for its own reasons.
    assert slowed or checked(recorded, "slower", "quiet")[0] == 0
