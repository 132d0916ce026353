"""EvaluationInTrainMode: a pass in training mode is an evaluation unless the model also evaluates."""

from __future__ import annotations

import pytest
from tests.rules.facts import ask, between
from tests.rules.tables import codes

from holter.rules import EvaluationInTrainMode

ALSO = between(6, evaluated={"model": "Net", "step": 6})


def passed(step, **other):
    one = {"model": "Net", "dropout": 1, "batch_norm": 0, "averages": False, "step": step, "place": "t.py:1"}
    return between(step, evaluation=one | {"loss": False, "calls": 1} | other)


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([passed(5)], [("Net", "warning")]),
        ([passed(5), ALSO], []),
        ([passed(5, averages=True)], []),
        ([passed(5, loss=True, calls=9)], [("repeated", "info")]),
        ([passed(5, loss=True), ALSO], [("Net", "warning")]),
        ([passed(5), passed(9)], [("Net", "warning")]),
    ],
)
def test_passes_in_training_mode(rows, found):
    assert codes(ask(EvaluationInTrainMode(), rows)) == found


def test_the_layers_that_the_mode_changes_are_named():
    (issue,) = ask(EvaluationInTrainMode(), [passed(5, batch_norm=2)])
    assert "with 1 dropout layer and 2 batch norm layers" in issue.summary
