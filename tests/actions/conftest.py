"""A job whose rules found something, and the occasion to act on it."""

from __future__ import annotations

import time
from typing import Any

import pytest

from holter.actions import Occasion
from holter.store.job import JobFolder, create

NOW = 1_700_000_000_000_000_000


def issue(**about: Any) -> dict[str, Any]:
    """Return an issue as `evaluations.json` holds it."""
    return {
        "rule": "LossSpike",
        "summary": "loss rose from 0.21 to 9.8 at step 40 <!channel>",
        "severity": "critical",
        "code": "loss",
        "node": "node",
        "rank": 1,
        "device": None,
        "tensor": None,
        "step_start": 40,
        "step_end": 40,
        "evidence": {"value": 9.8},
        "advice": "Lower the learning rate.",
        **about,
    }


def rule(*issues: dict[str, Any], name: str = "LossSpike") -> dict[str, Any]:
    """Return a rule as `evaluations.json` holds it."""
    return {"name": name, "rule": name, "status": "IssuesFound", "issues": list(issues)}


@pytest.fixture
def folder(tmp_path) -> JobFolder:
    """A job that runs, whose agent follows orders."""
    made = create(
        str(tmp_path / "store"),
        "my-job",
        command=["python", "train.py"],
        interval_ms=500,
        rules=[{"name": "LossSpike", "rule": "LossSpike", "parameters": {}}],
        now_ns=time.time_ns(),
    )
    made.write_node("node", {"obeys": ["interval_ms", "stop", "stacks"]})
    return made


@pytest.fixture
def occasion(folder) -> Occasion:
    """The loss spiked."""
    return Occasion(
        folder=folder,
        rule="LossSpike",
        issue=issue(),
        time=NOW,
        id="f" * 24,
        statuses={"LossSpike": "IssuesFound"},
    )
