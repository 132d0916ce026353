"""ScheduleMismatch compares the calls of a schedule with steps and with its length."""

from __future__ import annotations

import pytest
from tests.rules.facts import loader, steps, watched

from holter.rules import ScheduleMismatch, check_rule

WATCHED = (0, 1, 2, 4, 8, 16, 32, 64, 100, 200)


def told(name, length, *, every=1, count=240, epoch=None):
    """Judge a schedule that is stepped after each `every` steps."""
    events = [] if epoch is None else [loader(epoch)]
    for step in WATCHED:
        one = {"class": name, "steps": step // every, "length": length, "since": 0}
        events.append(watched(step, schedules=[one]))
    return [i.code for i in check_rule(ScheduleMismatch(), {"events": events, "steps": steps(count)})]


@pytest.mark.parametrize(
    ("case", "found"),
    [
        ({"name": "CosineAnnealingLR", "length": 10, "epoch": 24}, ["oscillates"]),
        ({"name": "CosineAnnealingLR", "length": 10}, ["oscillates"]),
        ({"name": "CosineAnnealingLR", "length": 50, "epoch": 24}, []),  # two epochs for one period
        ({"name": "CosineAnnealingLR", "length": 240, "epoch": 24}, []),
        ({"name": "CosineAnnealingLR", "length": 2, "every": 24, "epoch": 24}, []),  # per epoch, on purpose
        ({"name": "CyclicLR", "length": 10}, []),
        ({"name": "OneCycleLR", "length": 240, "every": 24}, ["stays"]),
        ({"name": "OneCycleLR", "length": 240}, []),
        ({"name": "CosineAnnealingLR", "length": 100, "every": 24}, []),  # stopped in epoch 10 of 100
        ({"name": "LambdaLR", "length": None}, []),
    ],
)
def test_calls_are_compared_with_length_and_steps(case, found):
    assert told(**case) == found
