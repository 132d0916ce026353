"""GradientClipping: the order of clipping and step, and norms that are always cut to next to nothing."""

from __future__ import annotations

import pytest
from tests.rules.facts import watched

from holter.rules import GradientClipping, check_rule

WATCHED = (0, 1, 2, 4, 8, 16, 32, 64, 100, 200)


def told(**facts_of_steps):
    """Judge facts, each a function of the step."""
    events = [watched(step, **{name: of(step) for name, of in facts_of_steps.items()}) for step in WATCHED]
    return [i.code for i in check_rule(GradientClipping(), {"events": events})]


def clips(late, in_time):
    return lambda step: {"late": late, "in_time": in_time, "limit": 1.0}


@pytest.mark.parametrize(("late", "in_time", "found"), [(1, 0, ["late"]), (1, 1, []), (0, 1, []), (0, 2, [])])
def test_only_clipping_that_is_always_late(late, in_time, found):
    assert told(clips=clips(late, in_time)) == found


@pytest.mark.parametrize(
    ("left", "found"),
    [
        (lambda step: 0.005, ["hard"]),
        (lambda step: 0.05, []),
        (lambda step: 0.005 if step < 50 else 0.5, []),  # only at first
        (lambda step: 1.0 if step == 8 else 0.005, []),  # not always
    ],
)
def test_a_norm_that_is_always_cut_to_a_hundredth(left, found):
    assert told(clips=clips(0, 1), clips_to=left) == found
