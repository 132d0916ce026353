"""Tests of the rule SaturatedActivation."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.tables import classic, judged, lack
from tests.rules.tensor_rows import counters, rows, tensor, whole

from holter.rules import BadRule
from holter.rules.tensors.saturated_activation import SaturatedActivation
from holter.schema.table import Table

RANDOM = np.random.default_rng(11)


class TestSaturatedActivation:
    def tanh(self, stuck_at):
        values = RANDOM.uniform(-1, 1, size=(300, 10))
        values[:, :6] = stuck_at
        return whole("net_tanh_input_0", {0: values}, role="act_in:tanh")

    def test_inputs_at_ten_and_at_nine(self):
        assert judged(classic(SaturatedActivation), self.tanh(10.0))
        assert not judged(classic(SaturatedActivation), self.tanh(9.0))
        assert judged(SaturatedActivation(), self.tanh(9.0))
        assert not judged(SaturatedActivation(), self.tanh(3.0))

    def test_counts_are_used_only_for_the_limits_they_were_made_with(self):
        table = rows(tensor("x", {0: [0.0, 9.0]}, role="act_in:sigmoid"))
        values = Table.of("tensor_values", counters("x", [0, 0, 300], 300))
        tables = {"tensors": table, "tensor_values": values}
        assert judged(SaturatedActivation(), tables)
        assert lack(SaturatedActivation(threshold_sigmoid_max=7), tables).reason == "shape_missing"

    def test_limits_the_wrong_way_round_are_refused(self):
        with pytest.raises(BadRule, match="threshold_tanh_min"):
            SaturatedActivation(threshold_tanh_min=5)
