"""What the scheduler does to a training is told: too many threads, a stop, shares of the training thread."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.jobs.starting import Jobs


def judged(case: str, folder: Path) -> dict[str, Any]:
    """Run a case; every training thread has shares that add up."""
    done = Jobs(folder / "store").train("scheduling.py", case, options=("--interval", "200ms"))
    assert done.code == 0, done.stderr
    told = done.describe()
    assert told["cost"]["faults"] == []
    (loop,) = [one for one in told["threads"] if one["phase"] == "training_loop"]
    assert loop["rank"] == 0
    for one in told["threads"]:
        whole = one["running_pct"] + one["waiting_for_core_pct"] + one["blocked_pct"]
        assert whole == pytest.approx(100)
    return told


def accused(told: dict[str, Any]) -> str:
    """Return all that the verdict says."""
    verdict = told["verdict"]
    texts = [fact["text"] for fact in verdict["evidence"]] + [one["text"] for one in verdict["advice"]]
    return "\n".join([verdict["sentence"], *texts])


def test_more_threads_than_cores_are_named_with_the_setting(tmp_path: Path) -> None:
    told = judged("crowded", tmp_path)
    assert "contention" in (told["verdict"]["suspect"], *told["verdict"]["also"]), told["verdict"]
    cores = told["nodes"][0]["cpus"]
    assert re.search(rf"the job's own threads want [\d.]+ of {cores} core", accused(told)), accused(told)
    assert f"OMP_NUM_THREADS={cores}." in accused(told)


def test_a_stopped_training_is_named(tmp_path: Path) -> None:
    told = judged("stopped", tmp_path)
    assert told["verdict"]["suspect"] == "contention"
    assert told["verdict"]["sentence"].startswith("The training is stopped ")
    assert "kill -CONT" in told["verdict"]["advice"][0]["text"]


def test_an_undisturbed_training_is_not_accused(tmp_path: Path) -> None:
    told = judged("plain", tmp_path)
    assert "own threads" not in accused(told)
    assert "stopped" not in accused(told)
    # It computes all the time, so that it runs or is ready to, however busy the machine is.
    (loop,) = [one for one in told["threads"] if one["phase"] == "training_loop"]
    assert loop["blocked_pct"] < 40
