"""Tests of the rule LossNotDecreasing."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.losses import judged, steps
from tests.rules.tables import ENDED, SECOND, classic, look
from tests.rules.tensor_rows import numbers

from holter.rules.training.loss_not_decreasing import LossNotDecreasing
from holter.schema.table import Table

UPSTREAM = {0: 0.30, 4: 0.33, 8: 0.31, 12: 0.30, 16: 0.28}


class TestLossNotDecreasing:
    def test_the_vector_of_upstream(self):
        assert steps(judged(classic(LossNotDecreasing), numbers("loss", UPSTREAM))) == [(0, 12)]
        assert judged(classic(LossNotDecreasing, start_step=13), numbers("loss", UPSTREAM)) == []

    def test_a_decrease_of_twenty_percent(self):
        more = {**UPSTREAM, 20: 0.20, 24: 0.42}
        assert steps(judged(classic(LossNotDecreasing, diff_percent=20), numbers("loss", more)))[0] == (0, 12)

    @pytest.mark.parametrize(("now", "fires"), [(1.03, False), (1.06, True), (0.9995, True), (0.99, False)])
    def test_the_two_percentages(self, now, fires):
        issues = judged(classic(LossNotDecreasing), numbers("loss", {0: 1.0, 10: now}))
        assert bool(issues) == fires

    def test_what_is_compared_and_when(self):
        flat = numbers("loss", dict.fromkeys(range(0, 40, 3), 1.0))
        assert steps(judged(classic(LossNotDecreasing), flat)) == [(0, 12), (12, 24), (24, 36)]
        late = judged(classic(LossNotDecreasing, start_step=21), flat)
        assert steps(late) == [(9, 21), (21, 33)]

    def test_the_scale_of_mixed_precision_is_no_loss(self):
        rises = {step: 2.0 ** (16 + step // 200) for step in range(1500)}
        issues, window = look(LossNotDecreasing(), job=ENDED, scalars=numbers("loss_scale", rises))
        assert (issues, window.lack.reason) == ([], "no_match")
        assert judged(LossNotDecreasing(), numbers("loss_scaled", rises)) != []

    def test_strict_asks_for_a_decrease(self):
        rose = numbers("loss", {0: 1.0, 10: 1.03})
        assert judged(classic(LossNotDecreasing, strict=True), rose)

    def test_modern_sees_through_noise(self):
        noise = np.random.default_rng(3).normal(1.0, 0.1, 1000)
        falling = {i: 2.0 * 0.999**i * n for i, n in enumerate(noise.tolist())}
        assert judged(LossNotDecreasing(), numbers("loss", falling)) == []
        rising = {i: 1.0 + i / 1000 + n / 100 for i, n in enumerate(noise.tolist())}
        issues = judged(LossNotDecreasing(), numbers("loss", rising))
        assert issues[0].step_end == 219 + 200
        assert issues[0].summary.startswith("loss rose by")

    def test_one_saved_loss_is_too_few(self):
        _, window = look(classic(LossNotDecreasing), job=ENDED, scalars=numbers("loss", {0: 1.0, 3: 1.0}))
        assert window.lack.reason == "too_few_points"
        _, window = look(classic(LossNotDecreasing), job=ENDED, scalars=numbers("auc", {0: 1.0, 30: 1.0}))
        assert window.lack.reason == "no_match"

    def test_evaluation_goes_first_in_classic_and_is_left_out_in_modern(self):
        falls, flat = {i: 1.0 - i / 100 for i in range(40)}, dict.fromkeys(range(40), 1.0)
        both = numbers("loss", falls), numbers("val_loss", flat, mode="eval")
        (issue, *_) = judged(classic(LossNotDecreasing), *both)
        assert issue.tensor == "val_loss"
        modern = LossNotDecreasing(num_steps=10, smooth=2)
        assert judged(modern, *both) == []
        assert judged(LossNotDecreasing(num_steps=10, smooth=2, mode="eval"), *both)

    def test_a_loss_that_is_low_enough_may_stay(self):
        flat = numbers("loss", dict.fromkeys(range(0, 40, 3), 0.01))
        assert judged(classic(LossNotDecreasing, plateau_ok_below=0.02), flat) == []

    def test_a_restart_from_a_checkpoint_starts_over(self):
        before = numbers("loss", {i: 1.0 - i / 100 for i in range(0, 50, 5)})
        after = numbers("loss", {i: 1.0 - i / 100 for i in range(20, 60, 5)})
        after = Table({**after.columns, "time": after["time"] + 100 * SECOND})
        assert judged(classic(LossNotDecreasing), before, after) == []
