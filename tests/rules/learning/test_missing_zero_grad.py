"""MissingZeroGrad: each step begins with the gradients of the step before."""

from __future__ import annotations

import pytest
from tests.rules.facts import WATCHED, ask, optimizer, watched

from holter.rules import MissingZeroGrad


@pytest.mark.parametrize(
    ("cleared", "steps"),
    [
        (lambda step: False, [1]),
        (lambda step: True, []),
        (lambda step: None, []),  # unknown, as on a GPU
        (lambda step: step == 0, []),  # accumulates over steps
    ],
)
def test_gradients_that_are_never_cleared(cleared, steps):
    rows = [watched(step, optimizers=[optimizer(cleared=cleared(step))]) for step in WATCHED]
    assert [issue.step_end for issue in ask(MissingZeroGrad(), rows)] == steps


def test_of_several_optimizers_only_steps_that_follow_one_another_count():
    both = [optimizer(cleared=False), optimizer(number=1, cleared=True)]
    assert not ask(MissingZeroGrad(), [watched(step, optimizers=both) for step in (4, 8, 16, 32)])
    assert ask(MissingZeroGrad(), [watched(step, optimizers=both) for step in (4, 5, 6)])
