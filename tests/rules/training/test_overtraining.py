"""Tests of the rule Overtraining."""

from __future__ import annotations

from tests.rules.losses import judged, steps
from tests.rules.tables import classic
from tests.rules.tensor_rows import numbers

from holter.rules.training.overtraining import Overtraining


class TestOvertraining:
    def test_evaluation_decides(self):
        falls = {i: 1.0 - i / 50 for i in range(40)}
        flat = numbers("loss", dict.fromkeys(range(5, 70, 5), 1.0), mode="eval")
        (issue,) = judged(classic(Overtraining), numbers("loss", falls), flat)
        assert (issue.step_start, issue.step_end) == (5, 55)
        assert issue.evidence["training_still_improves"]

    def test_training_where_nothing_is_evaluated(self):
        flat = numbers("loss", dict.fromkeys(range(6), 1.0))
        assert steps(judged(classic(Overtraining), flat)) == [(0, 5)]
        assert judged(classic(Overtraining), numbers("loss", {i: 1 - i / 50 for i in range(30)})) == []

    def test_delta_is_absolute_in_classic_and_a_share_in_modern(self):
        slow = {i: 8.0 - 0.009 * i for i in range(60)}
        assert judged(classic(Overtraining, delta=0.05), numbers("loss", dict.fromkeys(range(9), 0.02)))
        assert judged(Overtraining(), numbers("loss", slow)) == []
        assert judged(Overtraining(), numbers("loss", dict.fromkeys(range(60), 8.0)))

    def test_both(self):
        flat = dict.fromkeys(range(40), 1.0)
        rule = classic(Overtraining, require="both")
        assert judged(rule, numbers("loss", flat)) == []
        assert judged(rule, numbers("loss", flat), numbers("loss", flat, mode="eval"))
