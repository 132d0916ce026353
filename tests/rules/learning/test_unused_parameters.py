"""UnusedParameters: parameters without a gradient at all of the first watched steps."""

from __future__ import annotations

import pytest
from tests.rules.facts import WATCHED, ask, watched
from tests.rules.tables import codes

from holter.rules import UnusedParameters


@pytest.mark.parametrize(
    ("unused", "elements", "found"),
    [
        (lambda step: ["a.weight"], 10, [("", "warning")]),
        (lambda step: ["a.bias"], 1, [("", "info")]),
        (lambda step: ["a.weight"] if step != 1 else [], 10, []),
        (lambda step: ["a.weight"] if step % 2 else ["b.weight"], 10, []),
        (lambda step: ["experts.3.weight"], 10, []),
    ],
)
def test_parameters_that_never_receive_a_gradient(unused, elements, found):
    rows = [
        watched(step, unused=unused(step), unused_count=1, unused_elements=elements, trained={"weight": 100})
        for step in WATCHED
    ]
    issues = ask(UnusedParameters(), rows)
    assert codes(issues) == found
    assert all(issue.step_end == 4 for issue in issues)
