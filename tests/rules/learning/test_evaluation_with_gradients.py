"""EvaluationWithGradients counts the calls of each line that record graphs."""

from __future__ import annotations

import pytest
from tests.rules.facts import ask, between, watched

from holter.rules import EvaluationWithGradients


def recorded(step, calls, place="train.py:31"):
    return between(
        step, graphs={"place": place, "function": "validate", "model": "Net", "calls": calls, "step": step}
    )


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([recorded(4, 3)], ["train.py:31"]),
        ([recorded(4, 3), recorded(10, 3)], ["train.py:31"]),
        ([recorded(4, 1)], []),  # one call may be a look at an example
        ([recorded(4, 1), recorded(10, 1)], ["train.py:31"]),
        ([recorded(4, 1), recorded(10, 1, "train.py:40")], []),
        ([watched(0)], []),
    ],
)
def test_calls_of_one_line(rows, found):
    assert [issue.code for issue in ask(EvaluationWithGradients(), rows)] == found
