"""Tests of the rule Overfit."""

from __future__ import annotations

import pytest
from tests.rules.losses import judged, steps
from tests.rules.tables import ENDED, classic, look
from tests.rules.tensor_rows import numbers

from holter.rules.training.overfit import Overfit


def training_and_evaluation(pairs, *, every=10):
    """Make train losses over `every` steps before each evaluation, and one value of that."""
    train, evaluation = {}, {}
    for i, (t, v) in enumerate(pairs):
        train |= {i * every + j: t for j in range(every - 1)}
        evaluation[i * every + every - 1] = v
    return numbers("loss", train), numbers("loss", evaluation, mode="eval")


class TestOverfit:
    def test_the_gap(self):
        (issue,) = judged(classic(Overfit), *training_and_evaluation([(1.0, 1.2)]))
        assert issue.evidence["value"] == pytest.approx(0.2)
        assert judged(classic(Overfit), *training_and_evaluation([(1.0, 1.09)])) == []

    def test_patience(self):
        rule = classic(Overfit, patience=2)
        assert judged(rule, *training_and_evaluation([(1.0, 1.2)])) == []
        assert judged(rule, *training_and_evaluation([(1.0, 1.2), (1.0, 1.05), (1.0, 1.2)])) == []
        assert steps(judged(rule, *training_and_evaluation([(1.0, 1.2), (1.0, 1.2)]))) == [(19, 19)]

    def test_modern_wants_evaluation_to_get_worse(self):
        constant = [(1.0 / i, 1.5 / i) for i in range(1, 12)]
        assert judged(Overfit(), *training_and_evaluation(constant)) == []
        worse = [(1.0 / i, 1.0 / i if i < 5 else 0.25 + i / 20) for i in range(1, 12)]
        assert judged(Overfit(), *training_and_evaluation(worse))

    def test_names_tell_the_mode_too(self):
        table = numbers("train-rmse", {0: 1.0}), numbers("validation-rmse", {1: 2.0})
        assert judged(classic(Overfit), *table)
        table = numbers("train_loss", {0: 1.0}), numbers("val_loss", {1: 2.0})
        assert judged(classic(Overfit), *table)

    def test_without_evaluation_it_says_so(self):
        _, window = look(Overfit(), job=ENDED, scalars=numbers("loss", {0: 1.0}))
        assert window.lack.reason == "mode_missing"
