"""Data loading that hides behind a busy device gets no blame."""

from __future__ import annotations

import json

import pytest
from tests.rules.tables import START, steps

from holter.analysis.verdict.gathering import gather
from holter.analysis.verdict.job_verdict import verdict
from holter.schema.table import Table


@pytest.mark.parametrize(
    ("median_ms", "steps_timed", "guilty"), [(9, 20, False), (2, 20, True), (9, 2, True)]
)
def test_the_time_of_the_device_decides(median_ms: int, steps_timed: int, guilty: bool) -> None:
    detail = json.dumps({"median_ns": median_ms * 1_000_000, "steps": steps_timed})
    row = {"time": START, "rank": 0, "kind": "device_time", "name": "", "detail": detail}
    facts = gather(steps([0.01] * 60, data_loading=0.8, compute=0.15), events=Table.of("events", [row]))
    found = verdict(facts)
    assert (found.suspect == "data_pipeline") == guilty
    if not guilty:
        why = [one["why"] if "why" in one else str(one) for one in found.ruled_out]
        assert any("the device computes 90 % of the time" in text for text in why)


def test_a_device_that_waits_in_some_steps_is_not_busy() -> None:
    """Batches are fetched ahead, so that most steps are short and every tenth one waits for all of them."""
    detail = json.dumps({"median_ns": 900_000, "steps": 20})
    row = {"time": START, "rank": 0, "kind": "device_time", "name": "", "detail": detail}
    durations = [0.2 if at % 10 == 9 else 0.001 for at in range(100)]
    found = verdict(gather(steps(durations, data_loading=0.9), events=Table.of("events", [row])))
    assert found.suspect == "data_pipeline"
