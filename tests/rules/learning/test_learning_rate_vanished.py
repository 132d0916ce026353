"""LearningRateVanished judges the steps after the rate has vanished, and not the end of a schedule."""

from __future__ import annotations

import math

import pytest
from tests.rules.facts import planned, scalars, steps, watched

from holter.rules import LearningRateVanished, check_rule

COSINE = [0.5 * (1 + math.cos(math.pi * step / 300)) for step in range(301)]


def told(rates, events=(), count=None, pieces=1):
    tables = {"scalars": scalars(lr=rates), "steps": steps(count or len(rates))}
    return check_rule(LearningRateVanished(), {**tables, "events": list(events)}, pieces=pieces)


@pytest.mark.parametrize("pieces", [1, 7])
@pytest.mark.parametrize(
    "rates",
    [
        COSINE,
        COSINE * 3,
        [0.1 * (step + 1) / 100 for step in range(100)] + [0.1] * 100,
        [0.1] * 60 + [0.01] * 60 + [0.001] * 60 + [0.0001] * 60,
    ],
    ids=["cosine", "restarts", "warm-up", "staircase"],
)
def test_usual_schedules_are_healthy(rates, pieces):
    assert not told(rates, pieces=pieces)


@pytest.mark.parametrize("pieces", [1, 7])
def test_a_schedule_that_ends_long_before_the_training(pieces):
    (issue,) = told(COSINE + [0.0] * 100, pieces=pieces)
    assert 290 <= issue.step_start <= 300
    assert "after a peak of 1" in issue.summary


def test_the_planned_steps_count():
    assert not told(COSINE + [0.0] * 20)
    (issue,) = told(COSINE + [0.0] * 20, [planned(1000)])
    assert "of 1000 planned steps 70" in issue.summary


def test_rows_that_come_only_now_and_then_suffice():
    rates = [1.0] * 10 + [1e-6] + [1e-6 if step % 100 == 99 else None for step in range(200)]
    (issue,) = told(rates, count=211)
    assert issue.step_start == 10


def test_another_group_that_still_learns_is_healthy():
    rates = [1.0] * 10 + [0.0] * 200
    assert told(rates)
    assert not told(rates, [watched(step, lr=1.0) for step in (0, 1, 2, 4, 8, 16, 32, 64, 100)])
