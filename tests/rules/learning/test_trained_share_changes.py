"""TrainedShareChanges: parameters that become trainable by a mistake, or on purpose."""

from __future__ import annotations

from tests.rules.facts import ask, watched
from tests.rules.tables import codes

from holter.rules import TrainedShareChanges


def thawed(*functions):
    changed = {"elements": 10, "frozen": [], "frozen_count": 0, "thawed": ["a.weight"], "thawed_count": 1}
    return [
        watched(0, trained={"weight": 10}),
        watched(1, trained={"weight": 10}),
        watched(2, changed=changed | {"functions": list(functions)}),
    ]


def test_a_mode_that_changes_what_trains_is_a_warning():
    (issue,) = ask(TrainedShareChanges(), thawed("Backbone.train"))
    assert (issue.code, issue.severity, issue.step_start, issue.step_end) == ("mode", "warning", 1, 2)
    assert "50 % of the elements trained before, 100 % after; Backbone.train sets" in issue.summary


def test_gradual_unfreezing_is_a_note():
    assert codes(ask(TrainedShareChanges(), thawed())) == [("changed", "info")]
    assert not ask(TrainedShareChanges(), thawed()[:2])
