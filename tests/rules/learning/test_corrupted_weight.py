"""CorruptedWeight reports each element that changed by itself once."""

from __future__ import annotations

import pytest
from tests.rules.facts import ask, watched

from holter.rules import CorruptedWeight


def flipped(step, *, since=None, **other):
    flip = {"parameter": "a.weight", "element": 5, "before": 0.1, "after": 8598.0, "bits": 1}
    return watched(step, flip=flip | {"since": step if since is None else since, "step": step} | other)


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (flipped(4), "changed within step 4, before its update: from 0.1 to 8598, one bit"),
        (flipped(8, since=4, bits=3), "changed between steps 4 and 8: from 0.1 to 8598, 3 bits"),
        (flipped(4, after="inf", bits=None), "from 0.1 to inf"),
    ],
)
def test_the_element_and_its_values_are_named(row, text):
    (issue,) = ask(CorruptedWeight(), [watched(0), row])
    assert issue.summary.endswith(text)
    assert (issue.severity, issue.tensor) == ("critical", "a.weight")


def test_an_element_is_reported_once_and_others_too():
    rows = [flipped(2), flipped(4), flipped(8, element=6)]
    assert [issue.step_end for issue in ask(CorruptedWeight(), rows)] == [2, 8]
    assert not ask(CorruptedWeight(), [watched(step) for step in (0, 1, 2)])
