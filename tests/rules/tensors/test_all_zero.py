"""Tests of the rule AllZero."""

from __future__ import annotations

import pytest
from tests.rules.gradients import judged
from tests.rules.tables import classic
from tests.rules.tensor_rows import rows, weight

from holter.rules import BadRule
from holter.rules.tensors.all_zero import AllZero


class TestAllZero:
    def test_the_threshold_is_reached_not_passed(self):
        table = rows(weight("w", {0: [0.0] * 99 + [1.0]}))
        assert not judged(classic(AllZero), table)
        assert judged(classic(AllZero, threshold=99), table)
        assert judged(classic(AllZero), rows(weight("w", {0: [-0.0, 0.0]})))

    def test_modern_waits_and_forgives_the_first(self):
        zeros = {step: [0.0, 0.0] for step in range(6)}
        assert judged(AllZero(), rows(weight("w", zeros)))[0].step_start == 5
        assert not judged(AllZero(), rows(weight("w", {**zeros, 3: [0.0, 1.0]})))

    @pytest.mark.parametrize("threshold", [0, -1, 101])
    def test_impossible_thresholds_are_refused(self, threshold):
        with pytest.raises(BadRule, match="threshold"):
            AllZero(threshold=threshold)
