"""AutocastUnused: autocast is on, and no result has 16 bits."""

from __future__ import annotations

import pytest
from tests.rules.facts import WATCHED, ask, watched

from holter.rules import AutocastUnused


@pytest.mark.parametrize(
    ("asked", "low", "steps"),
    [
        ("bfloat16", lambda step: False, [1]),
        ("bfloat16", lambda step: True, []),
        ("bfloat16", lambda step: None, []),  # compiled: unknown
        ("bfloat16", lambda step: step == 0, []),  # it works at times
        (None, lambda step: False, []),
    ],
)
def test_autocast_without_effect(asked, low, steps):
    rows = [watched(step, precision={"asked": asked, "low": low(step)}) for step in WATCHED]
    assert [issue.step_end for issue in ask(AutocastUnused(), rows)] == steps
