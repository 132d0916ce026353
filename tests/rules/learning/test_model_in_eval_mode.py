"""ModelInEvalMode: a whole model trains in evaluation mode."""

from __future__ import annotations

import pytest
from tests.rules.facts import ask, watched
from tests.rules.tables import codes

from holter.rules import ModelInEvalMode


def trains(step, *, frozen, dropout=0, batch_norm=1):
    """Return a watched step of a model of five modules, of which some are in evaluation mode."""
    model = {"model": "Net", "training": frozen < 5, "modules": 5, "eval": frozen}
    return watched(step, models=[model | {"dropout": dropout, "batch_norm": batch_norm}])


@pytest.mark.parametrize(
    ("frozen", "layers", "found"),
    [
        ([0, 0, 5, 5, 5], {}, [("", "warning")]),
        ([0, 0, 5, 0, 5], {}, []),  # only now and then
        ([5, 5, 5], {"dropout": 1}, [("", "warning")]),
        ([5, 5, 5], {}, [("", "info")]),  # batch norm that is frozen on purpose
        ([5, 5, 5], {"batch_norm": 0}, []),
        ([0, 2, 2, 2], {"dropout": 1}, []),  # a part of the model
    ],
)
def test_models_in_evaluation_mode(frozen, layers, found):
    rows = [trains(step, frozen=one, **layers) for step, one in enumerate(frozen)]
    assert codes(ask(ModelInEvalMode(), rows)) == found


def test_the_first_watched_step_in_evaluation_mode_is_named():
    (issue,) = ask(ModelInEvalMode(), [trains(step, frozen=5 * (step > 2)) for step in (0, 1, 2, 4, 8)])
    assert issue.summary == "Net, with 1 batch norm layer, trains in evaluation mode since step 4 or earlier"
