"""Tests of the rule TensorVariance."""

from __future__ import annotations

import pytest
from tests.rules.gradients import judged
from tests.rules.tables import ENDED, classic, look
from tests.rules.tensor_rows import rows, weight

from holter.rules.tensors.tensor_variance import TensorVariance


class TestTensorVariance:
    def test_limits(self):
        table = rows(weight("w", {0: [0, 8]}))
        assert judged(classic(TensorVariance, max_threshold=10), table)[0].evidence["value"] == pytest.approx(
            16
        )
        assert not judged(classic(TensorVariance, max_threshold=16), table)
        assert judged(classic(TensorVariance, min_threshold=17), table)
        _, window = look(classic(TensorVariance), job=ENDED, tensors=table)
        assert "set max_threshold or min_threshold" in window.lack.text

    def test_modern_compares_with_the_first_step(self):
        assert judged(TensorVariance(), rows(weight("w", {0: [0, 1], 1: [0, 11]})))
        assert judged(TensorVariance(start_step=1), rows(weight("w", {0: [0, 11], 1: [0, 1]})))
        assert not judged(
            TensorVariance(), rows(weight("w", {0: [0, 1], 1: [0, 9]}), weight("one", {0: [3.0]}))
        )

    def test_modern_lets_a_tensor_begin_with_zeros_but_not_stay_so(self):
        zeros = {0: [0.0, 0.0], 1: [0.1, -0.1]}
        assert not judged(TensorVariance(), rows(weight("lora_b", zeros)))
        assert judged(TensorVariance(first_small=True), rows(weight("lora_b", zeros)))
        assert judged(TensorVariance(), rows(weight("w", {0: [0.0, 0.0], 1: [0.0, 0.0]})))
