"""Tests of the rule UnchangedTensor."""

from __future__ import annotations

import numpy as np
from tests.rules.gradients import judged
from tests.rules.tables import classic
from tests.rules.tensor_rows import numbers, rows, weight

from holter.rules.tensors.unchanged_tensor import UnchangedTensor

ONES = {0: [1.0, 1.0], 1: [1.0, 1.0], 2: [1.0, 1.0]}


class TestUnchangedTensor:
    def test_the_third_equal_value_fires(self):
        rule = classic(UnchangedTensor)
        assert not judged(rule, rows(weight("w.weight", {0: [1.0], 1: [1.0]})))
        assert judged(rule, rows(weight("w.weight", ONES)))[0].step_start == 2
        assert judged(classic(UnchangedTensor, start_step=2), rows(weight("w.weight", ONES)))
        assert not judged(rule, rows(weight("w.weight", {0: [1.0]})))

    def test_modern_wants_equal_bits(self):
        nearly = {step: [1.0 + step * 1e-7] for step in range(4)}
        assert judged(classic(UnchangedTensor), rows(weight("w", nearly)))
        assert not judged(UnchangedTensor(), rows(weight("w", nearly)))
        assert judged(UnchangedTensor(), rows(weight("w", ONES)))

    def test_what_should_not_change_may_stay(self):
        assert not judged(UnchangedTensor(), rows(weight("w", ONES, state="frozen"), weight("x", {0: [1]})))
        still = numbers("lr", dict.fromkeys(range(3), 0.0))
        assert not judged(UnchangedTensor(), rows(weight("w", ONES)), scalars=still)
        assert judged(UnchangedTensor(skip_if_lr_zero=False), rows(weight("w", ONES)), scalars=still)

    def test_without_fingerprint_and_change_the_statistics_decide(self):
        bare = [r | {"fingerprint": 0, "delta_max": np.nan} for r in weight("w", ONES)]
        assert judged(UnchangedTensor(), rows(bare))
        moved = [r | {"fingerprint": 0, "delta_max": np.nan} for r in weight("w", {**ONES, 2: [1, 2]})]
        assert not judged(UnchangedTensor(), rows(moved))
