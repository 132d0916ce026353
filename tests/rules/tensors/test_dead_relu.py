"""Tests of the rule DeadRelu."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.tables import classic, judged, lack
from tests.rules.tensor_rows import counters, rows, tensor, whole

from holter.rules.tensors.dead_relu import DeadRelu
from holter.schema.table import Table

RANDOM = np.random.default_rng(11)


class TestDeadRelu:
    def layer(self, dead, units=10, samples=64):
        values = np.abs(RANDOM.normal(size=(samples, units))) + 0.1
        values[:, :dead] = 0.0
        return values

    def relu(self, values, **about):
        by_step = values if isinstance(values, dict) else {0: values}
        return whole("relu0_relu_output_0", by_step, role="act_out:relu", **about)

    def test_a_dense_layer_of_zero_weights_is_dead(self):
        outputs = np.maximum(RANDOM.normal(size=(32, 20)) @ np.zeros((20, 10)), 0)
        assert judged(classic(DeadRelu), self.relu(outputs))[0].evidence["inactive_units"] == 10

    def test_half_of_the_units_is_not_more_than_half(self):
        assert not judged(classic(DeadRelu), self.relu(self.layer(5)))
        assert judged(classic(DeadRelu), self.relu(self.layer(6)))[0].evidence["value"] == pytest.approx(60)

    def test_modern_gathers_channels_over_steps(self):
        images = np.zeros((4, 8, 16, 16))
        images[:, 4:] = 1.0
        layers = self.relu(dict.fromkeys(range(12), images))
        assert judged(DeadRelu(), layers)[0].step_start == 11
        assert not judged(DeadRelu(), self.relu(dict.fromkeys(range(11), images)))

    def test_the_recorder_s_counts_are_enough(self):
        values = [row for s in range(3) for row in counters("act", [0, 0, 900, 10], 4096, step=s)]
        table = rows(tensor("act", {s: [0.0, 1.0] for s in range(3)}, role="act_out:relu"))
        tables = {"tensors": table, "tensor_values": Table.of("tensor_values", values)}
        (issue,) = judged(DeadRelu(), tables)
        assert (issue.step_start, issue.evidence["units"]) == (2, 4)

    def test_statistics_alone_are_not(self):
        table = rows(tensor("act", {0: [0.0, 1.0]}, role="act_out:relu"))
        assert lack(DeadRelu(), {"tensors": table}).reason == "shape_missing"
