"""LossOnProbabilities reads the last operations of the loss."""

from __future__ import annotations

import pytest
from tests.rules.facts import ask, watched

from holter.rules import LossOnProbabilities


@pytest.mark.parametrize(
    ("operations", "found"),
    [
        (["NllLoss", "LogSoftmax", "Softmax", "Addmm"], ["probabilities"]),
        (["NllLoss", "LogSoftmax", "View", "Softmax"], ["probabilities"]),
        (["NllLoss", "Softmax"], ["probabilities"]),
        (["BinaryCrossEntropyWithLogits", "Sigmoid"], ["probabilities"]),
        (["MseLoss", "Expand", "Addmm"], ["broadcast"]),
        (["NllLoss", "LogSoftmax", "Addmm"], []),
        (["NllLoss", "LogSoftmax", "Addmm", "Softmax"], []),  # attention
        (["MseLoss", "Sigmoid"], []),
    ],
)
def test_what_comes_before_the_loss(operations, found):
    issues = ask(LossOnProbabilities(), [watched(step, loss=operations) for step in (0, 1, 2)])
    assert [(issue.code, issue.step_end) for issue in issues] == [(code, 1) for code in found]
