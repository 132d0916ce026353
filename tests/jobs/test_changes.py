"""A training that becomes slower and collects threads is told since when; its healthy twin is not."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.jobs.starting import TRAININGS, holter

RULES = ("StepTimeIncrease:min_lost_s=1", "ResourceGrowth:skip_s=0,min_s=5")


def judged(case: str, folder: Path) -> tuple[dict[str, Any], str]:
    """Run a case; returns its description, and its card."""
    rules = [word for rule in RULES for word in ("--rule", rule)]
    script = [sys.executable, str(TRAININGS / "changes.py"), case]
    options = ["--store", "s", "--job", "it", "--interval", "200ms", *rules]
    card = holter("run", *options, "--", *script, cwd=folder).stderr
    return json.loads(holter("describe", "it", "--store", "s", "--json", cwd=folder).stdout), card


def issues(told: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [issue for rule in told["rules"] if rule["name"] == name for issue in rule["issues"]]


def crowded(told: dict[str, Any]) -> bool:
    """Whether the training waited for a core, because of other programs."""
    delays = [one["p50"] for one in told["utilization"] if one["metric"] == "proc.cpu.delay"]
    return max(delays, default=0.0) >= 20


@pytest.mark.slow
def test_the_begin_size_and_part_of_changes_are_named(tmp_path: Path) -> None:
    told, card = judged("sick", tmp_path)
    slower = next(one for one in told["changes"] if one["what"] == "step_time" and one["until_step"] is None)
    assert slower["step"] == pytest.approx(200, abs=3)
    assert slower["part"] == "data_loading"
    assert slower["grown_ms"]["data_loading"] == pytest.approx(92, rel=0.3)
    assert "change    since step " in card
    (found,) = issues(told, "StepTimeIncrease")
    assert (found["severity"], found["step_start"]) == ("warning", pytest.approx(200, abs=8))
    (threads,) = [one for one in told["changes"] if one["what"] == "proc.threads"]
    assert threads["kind"] == "growth"
    assert [one["code"] for one in issues(told, "ResourceGrowth")] == ["proc.threads"]


@pytest.mark.slow
def test_a_training_without_changes_is_told_of_none(tmp_path: Path) -> None:
    told, card = judged("well", tmp_path)
    assert not issues(told, "ResourceGrowth")
    assert [one for one in told["changes"] if one["what"] != "step_time"] == []
    if not crowded(told):  # other programs on the machine do change the steps
        assert [one for one in told["changes"] if one["cost_pct"] >= 10] == []
        assert "warning" not in [one["severity"] for one in issues(told, "StepTimeIncrease")]
        assert "change    " not in card
