"""Tests of the rule Confusion."""

from __future__ import annotations

import numpy as np
from tests.rules.tables import classic, judged, lack
from tests.rules.tensor_rows import labelled

from holter.rules.data.confusion import Confusion

RANDOM = np.random.default_rng(11)


class TestConfusion:
    TEN = tuple(range(10))
    ONE_WRONG = (0, 1, 2, 3, 7, 5, 6, 7, 8, 9)

    def test_a_perfect_matrix(self):
        labels = RANDOM.integers(0, 10, 100)
        assert not judged(classic(Confusion), labelled(labels, labels))

    def test_one_label_is_taken_for_another(self):
        tables = labelled(self.TEN, self.ONE_WRONG)
        assert judged(classic(Confusion, category_no=10), tables)
        (issue,) = judged(classic(Confusion, min_diag=0, max_off_diag=0.01), tables)
        assert issue.evidence["value"] == 0.5

    def test_few_mistakes_are_allowed(self):
        labels, guesses = [0] * 100 + [1] * 100, [0] * 95 + [1] * 105
        assert not judged(classic(Confusion), labelled(labels, guesses))
        assert judged(classic(Confusion, max_off_diag=0.047), labelled(labels, guesses))
        assert judged(classic(Confusion, min_diag=0.96), labelled(labels, guesses))

    def test_modern_is_silent_until_limits_are_chosen_and_gathers(self):
        assert "min_diag" in lack(Confusion(), labelled(self.TEN, self.ONE_WRONG)).text
        assert lack(Confusion(min_diag=0.9), labelled(self.TEN, self.ONE_WRONG)).need == 200
        many = labelled(self.TEN * 20, self.ONE_WRONG * 20)
        codes = {i.code for i in judged(Confusion(min_diag=0.9), many)}
        assert codes == {"diagonal_by_prediction", "diagonal_by_label"}
