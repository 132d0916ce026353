"""NothingLearned: the loss of guessing, gradients of 0, updates of 0; a slow start is healthy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.rules.facts import scalars, watched

from holter.rules import NothingLearned, check_rule

GUESS = math.log(10)


def noisy(level, count, noise=0.05):
    return (level + noise * np.random.default_rng(0).standard_normal(count)).tolist()


def told(*, classes=10, pieces=1, **series):
    events = [watched(step, classes=classes) for step in (0, 1, 2, 4, 8)]
    tables = {"scalars": scalars(**series), "events": events}
    return [i.code for i in check_rule(NothingLearned(), tables, pieces=pieces)]


@pytest.mark.parametrize("pieces", [1, 5])
@pytest.mark.parametrize(
    ("losses", "found"),
    [
        (noisy(GUESS, 1200), ["guessing"]),
        (noisy(GUESS, 600), ["guessing"]),  # all of a finished job
        (noisy(GUESS, 300), []),  # too few steps
        (noisy(2.9, 100) + noisy(GUESS, 1100), ["guessing"]),  # it falls to that of guessing
        ([GUESS] * 60, ["guessing"]),  # a constant output
        (noisy(np.linspace(GUESS, 0.97 * GUESS, 1200), 1200), []),  # slow, but it learns
        (noisy(np.linspace(GUESS, 0.99 * GUESS, 600), 600), []),
        (noisy(GUESS, 400) + noisy(1.5, 800), []),  # a plateau first
        (noisy(1.5, 1200), []),
    ],
)
def test_the_loss_of_guessing(losses, found, pieces):
    assert told(loss=losses, pieces=pieces) == found


def test_other_losses_and_warm_up_are_not_judged():
    assert told(classes=None, loss=noisy(GUESS, 1200)) == []
    assert told(classes=1, loss=[0.0] * 1200) == []
    rates = [step / 1000 for step in range(1200)]
    assert told(loss=noisy(GUESS, 1200), lr=rates) == []


@pytest.mark.parametrize(
    ("updates", "found"),
    [
        ({"group0": [0.0] * 60}, ["update"]),
        ({"group0": [0.0] * 20}, []),
        ({"group0": [0.0] * 60, "group1": [0.1] * 60}, []),
        ({"group0": [0.0] * 3 + [0.1] * 57}, []),  # warm-up from 0
    ],
)
def test_updates_of_zero(updates, found):
    assert told(**{f"update_ratio/{name}": values for name, values in updates.items()}) == found


@pytest.mark.parametrize(
    ("gradients", "norm", "received", "found"),
    [
        (lambda step: [0, 0], [0.0] * 70, 2, ["gradient"]),
        (lambda step: [0, 0], [1.0] * 70, 2, []),  # of elements that are not sampled
        (lambda step: [0, 7], [0.0] * 70, 2, []),
        (lambda step: [0, step >= 32], [0.0] * 70, 2, []),  # a first reward that comes late
        (lambda step: [0, 0], [0.0] * 70, 0, []),  # no gradient at all is another error
    ],
)
def test_gradients_of_zero(gradients, norm, received, found):
    events = [
        watched(step, received=received, gradients=gradients(step)) for step in (0, 1, 2, 4, 8, 16, 32, 64)
    ]
    tables = {"scalars": scalars(grad_norm=norm), "events": events}
    assert [i.code for i in check_rule(NothingLearned(), tables)] == found
