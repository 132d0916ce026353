"""Tests of the rule OverallFrameworkMetrics."""

from __future__ import annotations

import pytest
from tests.rules.tables import SECOND, START, look, steps

from holter.rules.framework.overall_framework_metrics import OverallFrameworkMetrics
from holter.schema.table import Table


def test_framework_metrics_never_fire_and_add_up():
    table = steps([0.5] * 100, data_loading=0.4, forward=0.3, backward=0.3)
    issues, window = look(OverallFrameworkMetrics(), steps=table)
    assert issues == []
    assert window.details["phase_pct"] == {"train": 100.0, "others": 0.0}
    assert window.details["part_pct"]["data_loading"] == pytest.approx(40)
    assert window.details["forward_pct_of_passes"] == pytest.approx(50)


def test_framework_metrics_under_the_names_of_old_reports():
    table = steps([0.5] * 100, data_loading=0.5, forward=0.2, backward=0.3)
    operators = [("aten::mm", 98), ("aten::add", 1), ("aten::relu", 1)]
    rows = [{"time": START, "duration": us * 1000, "name": n, "kind": "operator"} for n, us in operators]
    kernels = [{"time": START, "duration": 300_000, "device": 1, "name": "gemm", "kind": "compute"}]
    _, window = look(
        OverallFrameworkMetrics(),
        steps=table,
        operators=Table.of("operators", rows),
        kernels=Table.of("kernels", kernels),
    )
    details = window.details
    assert details["phase"] == {"Step:ModeKeys.TRAIN": 100.0, "others": 0.0}
    assert details["phase_time"]["Step:ModeKeys.TRAIN"] == 50_000_000
    assert details["general"]["data_loading"] == pytest.approx(50)
    assert details["forward_backward"] == pytest.approx({"forward": 40, "backward": 60})
    assert details["ratio"] == pytest.approx({"cpu_functions": 25, "gpu_functions-dev:1": 75})
    assert (details["CPU"], details["CPU_total"]) == ({"aten::mm": 100.0}, {"aten::mm": 98})
    assert (details["GPU"], details["GPU_total"]) == ({"gemm": 100.0}, {"gemm": 300})


def test_time_between_steps_is_other():
    gap = Table.concat([steps([1.0] * 10), steps([1.0] * 10, first=10, start=START + 30 * SECOND)])
    _, window = look(OverallFrameworkMetrics(), steps=gap)
    assert window.details["phase_pct"]["others"] == pytest.approx(50)
