"""Tests of the rule WeightUpdateRatio."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.gradients import judged
from tests.rules.tables import ENDED, classic, look
from tests.rules.tensor_rows import numbers, rows, tensor, weight

from holter.rules.training.weight_update_ratio import WeightUpdateRatio


class TestWeightUpdateRatio:
    BEFORE, AFTER = [1, -1, 2, -2], [1.1, -0.9, 2.1, -1.9]

    def test_a_healthy_update(self):
        table = rows(weight("w", {0: self.BEFORE, 1: self.AFTER}))
        assert not judged(classic(WeightUpdateRatio), table)
        assert not judged(WeightUpdateRatio(), table)
        (issue,) = judged(classic(WeightUpdateRatio, large_threshold=0.06), table)
        assert issue.evidence["value"] == pytest.approx(0.1 / 1.5, rel=1e-6)
        (issue,) = judged(WeightUpdateRatio(large_threshold=0.06), table)
        assert issue.evidence["value"] == pytest.approx(0.2 / np.sqrt(10), rel=1e-6)

    def test_no_update(self):
        table = rows(weight("w", {0: self.BEFORE, 1: self.BEFORE}))
        assert judged(classic(WeightUpdateRatio), table)[0].code == "small"
        assert judged(WeightUpdateRatio(), table)[0].code == "small"

    def test_modern_lets_a_weight_that_began_at_zero_grow(self):
        grows = {0: [0.0, 0.0], 1: [0.1, -0.1], 2: [0.15, -0.15], 3: [0.16, -0.16]}
        assert not judged(WeightUpdateRatio(), rows(weight("lora_b", grows)))
        jumps = grows | {4: [0.5, -0.5]}
        assert judged(WeightUpdateRatio(), rows(weight("lora_b", jumps)))[0].step_end == 4

    def test_modern_forgives_a_learning_rate_of_zero_or_that_rises(self):
        table = rows(weight("w", {0: self.BEFORE, 1: self.BEFORE}))
        assert not judged(WeightUpdateRatio(), table, scalars=numbers("lr", {0: 0.0, 1: 0.0}))
        assert not judged(WeightUpdateRatio(), table, scalars=numbers("lr", {0: 1e-6, 1: 1e-5}))
        assert judged(WeightUpdateRatio(), table, scalars=numbers("lr", {0: 1e-5, 1: 1e-5}))

    def test_modern_takes_the_change_per_step_and_leaves_biases_and_frozen_weights_out(self):
        grown = {0: [1.0, 1.0], 10: [1.5, 1.5]}
        assert not judged(WeightUpdateRatio(), rows(weight("w", grown)))
        assert judged(WeightUpdateRatio(per_step=False, large_threshold=0.4), rows(weight("w", grown)))
        table = rows(weight("w", {0: [1.0], 1: [1.0]}, state="frozen"), weight("x", {0: [1.0], 1: [1.001]}))
        assert not judged(WeightUpdateRatio(), table)
        bias = rows(tensor("b.bias", {0: [1.0], 1: [9.0]}, role="bias"), weight("x", {0: [1.0], 1: [1.001]}))
        assert not judged(WeightUpdateRatio(), bias)

    def test_steps_that_are_too_near_are_said(self):
        table = rows(weight("w", {0: self.BEFORE, 1: self.BEFORE}))
        issues, window = look(classic(WeightUpdateRatio, num_steps=5), job=ENDED, tensors=table)
        assert not issues
        assert "save every 5 steps" in window.lack.text

    @pytest.mark.parametrize("state", ["frozen", "skipped"])
    def test_what_did_not_learn_before_owes_no_change(self, state):
        values = {0: [1.0, 2.0], 1: [1.0, 2.0], 2: [1.0, 2.0], 3: [1.0, 2.0]}
        table = weight("w", values)
        for row in table[:2]:
            row["state"] = state
        (issue,) = judged(WeightUpdateRatio(), rows(table))
        assert (issue.code, issue.step_start) == ("small", 3)
