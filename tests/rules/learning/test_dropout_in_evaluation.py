"""DropoutInEvaluation reports each place that drops elements of a model that evaluates."""

from __future__ import annotations

from tests.rules.facts import ask, between, watched
from tests.rules.tables import codes

from holter.rules import DropoutInEvaluation


def dropped(step, place="train.py:12", *, training=False):
    fact = {"place": place, "function": "Net.forward", "p": 0.5, "training": training, "step": step}
    return between(step, dropout=fact)


def test_each_place_is_reported_once():
    found = ask(DropoutInEvaluation(), [dropped(4), dropped(8), dropped(8, "train.py:20", training=True)])
    assert codes(found) == [("train.py:12", "warning"), ("train.py:20", "info")]
    assert found[0].step_end == 4
    assert "in Net.forward at train.py:12" in found[0].summary


def test_a_training_that_drops_nothing_in_evaluations_is_judged():
    assert not ask(DropoutInEvaluation(), [watched(0)])
