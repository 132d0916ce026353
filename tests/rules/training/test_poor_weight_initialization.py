"""Tests of the rule PoorWeightInitialization."""

from __future__ import annotations

import numpy as np
from tests.rules.gradients import gradient, judged
from tests.rules.tables import classic
from tests.rules.tensor_rows import numbers, rows, tensor

from holter.rules.training.poor_weight_initialization import PoorWeightInitialization


class TestPoorWeightInitialization:
    def layers(self, large, steps=1):
        # Two elements at +-s have variance s².
        sizes = {"a_relu_input": 1.0, "b_relu_input": np.sqrt(large)}
        return [tensor(n, {i: [s, -s] for i in range(steps)}, role="act_in:relu") for n, s in sizes.items()]

    def test_classic_takes_any_of_the_three(self):
        rule = classic(PoorWeightInitialization)
        assert judged(rule, rows(*self.layers(11)))[0].code == "scales"
        assert not judged(rule, rows(*self.layers(9)))
        narrow = rows(*self.layers(2), gradient("w", {0: [1e-5, -1e-5]}))
        assert judged(rule, narrow)[0].code == "gradients"
        flat = numbers("loss", dict.fromkeys(range(6), 1.0))
        assert judged(rule, rows(*self.layers(2, 6)), scalars=flat)[0].code == "loss"
        falling = numbers("loss", {i: 1.0 - i / 10 for i in range(6)})
        assert not judged(rule, rows(*self.layers(2, 6)), scalars=falling)

    def test_modern_asks_for_a_loss_that_does_not_fall_too(self):
        rule = PoorWeightInitialization()
        flat = numbers("loss", dict.fromkeys(range(12), 1.0))
        falling = numbers("loss", {i: 1.0 - i / 20 for i in range(12)})
        assert judged(rule, rows(*self.layers(200, 12)), scalars=flat)[0].step_start == 10
        assert not judged(rule, rows(*self.layers(200, 12)), scalars=falling)
        assert not judged(rule, rows(*self.layers(20, 12)), scalars=flat)

    def test_only_the_first_saved_steps_count(self):
        late = [row for layer in self.layers(99, 11) for row in layer if row["step"] == 10]
        assert not judged(classic(PoorWeightInitialization), rows(*self.layers(2, 10), late))
