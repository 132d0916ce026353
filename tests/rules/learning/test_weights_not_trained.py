"""WeightsNotTrained: only normalization trains, or steps change nothing."""

from __future__ import annotations

import pytest
from tests.rules.facts import WATCHED, ask, optimizer, watched

from holter.rules import WeightsNotTrained


@pytest.mark.parametrize(
    ("trained", "elements", "found"),
    [
        ({"norm_param": 2}, 100, ["frozen"]),
        ({"norm_param": 2, "weight": 10}, 100, []),  # the head trains too
        ({"norm_param": 2}, 4, []),  # a model of normalization layers
    ],
)
def test_only_normalization_trains(trained, elements, found):
    rows = [watched(step, trained=trained, elements=elements, values=[step]) for step in WATCHED]
    issues = ask(WeightsNotTrained(), rows)
    assert [(issue.code, issue.step_end) for issue in issues] == [(code, 0) for code in found]


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        ({"lr": 0.1}, ["unchanged"]),
        ({"lr": 0.0}, []),  # warm-up from 0
        ({"gradients": [0, 0]}, []),
        ({"optimizers": [optimizer(skipped=True)]}, []),
    ],
)
def test_steps_that_change_nothing(facts, found):
    issues = ask(WeightsNotTrained(), [watched(step, **facts) for step in WATCHED])
    assert [(issue.code, issue.step_end) for issue in issues] == [(code, 2) for code in found]
    assert not ask(WeightsNotTrained(), [watched(step, values=[step], **facts) for step in WATCHED])
