"""WrongParameters compares what an optimizer holds with what receives gradients."""

from __future__ import annotations

import pytest
from tests.rules.facts import ask, optimizer, watched
from tests.rules.tables import codes

from holter.rules import WrongParameters


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        (lambda step: {"received": 0}, [("without_gradients", "critical")]),
        (lambda step: {"received": step == 1}, []),
        (lambda step: {"optimizers": [optimizer(received=0, skipped=True)]}, []),
        (lambda step: {"unheld": ["c.weight"], "unheld_count": 1}, [("not_held", "info")]),
        (lambda step: {"unheld": ["c.weight"], "unheld_count": step % 2}, []),
    ],
)
def test_parameters_without_gradients_and_gradients_without_an_optimizer(facts, found):
    issues = ask(WrongParameters(), [watched(step, **facts(step)) for step in (0, 1, 2, 3, 4)])
    assert codes(issues) == found
    assert all(issue.step_end == 2 for issue in issues)
