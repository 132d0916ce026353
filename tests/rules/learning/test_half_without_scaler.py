"""HalfWithoutScaler: float16 without a scaled loss, in weights or under autocast."""

from __future__ import annotations

import pytest
from tests.rules.facts import ask, watched

from holter.rules import HalfWithoutScaler


@pytest.mark.parametrize(
    ("precision", "loss", "found"),
    [
        ({"half": 4}, ["NllLoss"], ["weights"]),
        ({"half": 4, "scaled": True}, ["NllLoss"], []),
        ({"half": 4}, ["Mul", "NllLoss"], []),  # scaled by hand
        ({"asked": "float16", "low": True}, ["NllLoss"], ["autocast"]),
        ({"asked": "float16", "low": False}, ["NllLoss"], []),
        ({"asked": "bfloat16", "low": True}, ["NllLoss"], []),
    ],
)
def test_float16_without_a_scaled_loss(precision, loss, found):
    usual = {"asked": None, "low": None, "scaled": False, "half": 0, "held": 4}
    rows = [watched(step, precision=usual | precision, loss=loss) for step in (0, 1, 2)]
    issues = ask(HalfWithoutScaler(), rows)
    assert [(issue.code, issue.step_end) for issue in issues] == [(code, 1) for code in found]
