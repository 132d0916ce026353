"""StepsAlwaysSkipped counts skipped steps in a row; a scaler that looks for its scale is healthy."""

from __future__ import annotations

import pytest
from tests.rules.facts import steps
from tests.rules.rows import SECOND, START

from holter.rules import StepsAlwaysSkipped, check_rule


def told(skipped, pieces=1):
    rows = [
        {
            "time": START + step * SECOND,
            "duration": 0,
            "step": step,
            "rank": 0,
            "phase": "skipped",
            "name": "SGD",
        }
        for step in skipped
    ]
    tables = {"spans": rows, "steps": steps(400)}
    return [i.code for i in check_rule(StepsAlwaysSkipped(), tables, pieces=pieces)]


@pytest.mark.parametrize("pieces", [1, 6])
@pytest.mark.parametrize(
    ("skipped", "found"),
    [
        (range(16), []),
        (range(0, 400, 3), []),
        ([*range(20), *range(21, 41)], []),
        (range(24), ["all"]),
        (range(100, 400), ["all", "many"]),
        ([step for step in range(400) if step % 3], ["many"]),
    ],
)
def test_skipped_steps_in_a_row(skipped, found, pieces):
    assert told(skipped, pieces) == found
