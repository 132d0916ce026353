"""Tests of the rule CheckInputImages."""

from __future__ import annotations

import numpy as np
from tests.rules.tables import classic, judged, lack
from tests.rules.tensor_rows import whole

from holter.rules.data.check_input_images import CheckInputImages

RANDOM = np.random.default_rng(11)


class TestCheckInputImages:
    def images(self, mean, std, count=600, name="hybridsequential0_input_0"):
        values = RANDOM.normal(mean, std, size=(count // 6, 1, 8, 8))
        return whole(name, dict.fromkeys(range(6), values), role="model_input:0")

    def test_images_from_zero_to_one_are_not_normalised(self):
        (issue, *_) = judged(classic(CheckInputImages), self.images(0.286, 0.352))
        assert issue.step_start == 4
        assert not judged(classic(CheckInputImages), self.images(0.0, 1.0))
        assert lack(classic(CheckInputImages), self.images(0.286, 0.352, 480)).reason == "too_few_points"

    def test_modern_takes_the_role_and_looks_at_deviation_and_range(self):
        assert judged(CheckInputImages(), self.images(0.0, 0.05, name="x"))[0].code == "std"
        assert judged(CheckInputImages(), self.images(120, 40, 6, name="x"))[0].code == "raw"

    def test_statistics_and_the_shape_are_enough_for_a_mean_that_is_far_off(self):
        both = self.images(0.5, 0.2)
        shapes = both["tensor_values"].where(both["tensor_values"]["kind"] == "shape")
        assert judged(CheckInputImages(), {**both, "tensor_values": shapes})[0].code == "mean"
        assert lack(CheckInputImages(), {"tensors": both["tensors"]}).reason == "shape_missing"
