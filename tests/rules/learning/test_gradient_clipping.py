"""GradientClipping: the order of clipping and step, and norms that are always cut to next to nothing."""

from __future__ import annotations

import pytest
from tests.rules.facts import scalars, watched

from holter.rules import GradientClipping, check_rule


def told(events=(), **series):
    tables = {"scalars": scalars(**series), "events": [watched(0), *events]}
    return [i.code for i in check_rule(GradientClipping(), tables)]


@pytest.mark.parametrize(("late", "in_time", "found"), [(1, 0, ["late"]), (1, 1, []), (0, 1, []), (0, 2, [])])
def test_only_clipping_that_is_always_late(late, in_time, found):
    clips = {"late": late, "in_time": in_time, "limit": 1.0}
    assert told([watched(step, clips=clips) for step in (1, 2, 4, 8)]) == found


def test_a_norm_that_is_always_cut_to_a_hundredth():
    def cut(norms, limit):
        return told(grad_norm=norms, grad_norm_clipped=[min(limit, one) for one in norms])

    assert cut([5.0] * 200, 0.01) == ["hard"]
    assert cut([5.0] * 200, 0.1) == []
    assert cut([5.0] * 50, 0.01) == []  # too few steps
    assert cut([0.001, *[5.0] * 200], 0.01) == []  # not always
    assert told(grad_norm=[5.0] * 200) == []  # not clipped
