"""Tests of the rule BetweenStepOverhead."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.overheads import WARM
from tests.rules.tables import SECOND, START, found, steps

from holter.rules.framework.between_step_overhead import BetweenStepOverhead
from holter.schema.table import Table

# --- between steps


def test_code_between_steps_that_nobody_named():
    table = steps([0.1] * 1000, forward=0.4, backward=0.35, optimizer=0.05)
    (issue,) = found(BetweenStepOverhead(), job=WARM, steps=table)
    assert issue.severity == "warning"
    assert issue.evidence["other_pct"] == pytest.approx(20)
    busy = steps([0.1] * 1000, forward=0.5, backward=0.4, optimizer=0.08)
    assert found(BetweenStepOverhead(), job=WARM, steps=busy) == []


def test_gaps_between_marked_steps():
    table = steps([0.1] * 400, forward=0.5, backward=0.5)
    apart = Table({**table.columns, "time": table["time"] + np.arange(400) * round(0.1 * SECOND)})
    (issue,) = found(BetweenStepOverhead(), job=WARM, steps=apart)
    assert (issue.severity, issue.evidence["gap_pct"]) == ("critical", pytest.approx(50, abs=1))


def test_steps_whose_inside_is_unknown_and_steps_of_a_tenth_of_a_millisecond_are_left_alone():
    assert found(BetweenStepOverhead(), job=WARM, steps=steps([0.1] * 1000)) == []
    tiny = steps([0.0001] * 2000, forward=0.3, backward=0.3)
    assert found(BetweenStepOverhead(), job=WARM, steps=tiny) == []
    assert [i.severity for i in found(BetweenStepOverhead(), job=WARM, steps=tiny, events=late(300))] == [
        "info"
    ]


def late(seconds: float) -> Table:
    """Make an event at this many seconds after the start, which lengthens the job."""
    return Table.of("events", [{"time": START + round(seconds * SECOND), "kind": "signal"}])
