"""Rules about work of accelerators, on traces with a known answer."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.tables import codes, found, look, samples, steps
from tests.rules.traces import GEMM16, MS, US, Trace, syncing

from holter.rules import Window
from holter.rules.framework.comm_not_overlapped import CommNotOverlapped
from holter.rules.framework.cpu_bound_launch import CpuBoundLaunch
from holter.rules.framework.host_device_sync_storm import HostDeviceSyncStorm
from holter.rules.framework.mixed_precision_not_used import MixedPrecisionNotUsed
from holter.rules.framework.unpinned_h2d_copy import UnpinnedH2DCopy

RULES = (
    CommNotOverlapped(),
    CpuBoundLaunch(),
    HostDeviceSyncStorm(),
    MixedPrecisionNotUsed(),
    UnpinnedH2DCopy(),
)


def healthy(count=12, ranks=2):
    """Steps of 10 ms: the host is far ahead, collectives and pinned copies hide behind compute."""
    trace = Trace()
    for rank in range(ranks):
        for i in range(count):
            at = i * 10 * MS
            trace.step(at, 10 * MS, i, rank=rank)
            for k in range(99):
                begin = at + k * 100 * US
                launched = at - 5 * MS + k * 50 * US
                trace.kernel(begin, 100 * US, rank=rank, launched=launched, name=GEMM16)
            trace.collective(at + 5 * MS, 3 * MS, rank=rank, step=i, bytes=64 << 20, group_size=ranks)
            trace.copy(at + 1 * MS, 0.3 * MS, rank=rank, memory="pinned", bytes=8 << 20, stream=20)
            trace.sync(at + 9 * MS, 0.4 * MS, rank=rank)
    return trace


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_a_healthy_trace_is_judged_and_silent(rule):
    issues, window = look(rule, **healthy().tables)
    assert issues == []
    assert window.points > 0


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_without_a_trace_it_says_how_to_get_one(rule):
    issues, window = look(rule, steps=steps([0.1] * 200), samples=samples({("cpu.util", ""): [50.0] * 100}))
    assert issues == []
    assert window.points == 0
    assert window.lack.reason == "no_input"
    assert "holter profile" in window.lack.text


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_too_few_steps_are_not_judged(rule):
    issues, window = look(rule, **healthy(count=3).tables)
    assert issues == []
    assert window.lack.reason == "too_few_points"


def test_counters_stand_in_for_a_trace():
    count = 700
    series = {("gpu.sm_active", "gpu0"): 12.0, ("gpu.util", "gpu0"): 95.0}
    series |= {("gpu.power", "gpu0"): 150.0, ("gpu.power_limit", "gpu0"): 700.0}
    table = samples({key: np.full(count, value) for key, value in series.items()})
    assert codes(found(CpuBoundLaunch(), samples=table)) == [("counters", "info")]
    tensor = {
        ("gpu.sm_active", "gpu0"): np.full(count, 80.0),
        ("gpu.tensor_active", "gpu0"): np.full(count, 1.0),
    }
    assert codes(found(MixedPrecisionNotUsed(), samples=samples(tensor))) == [("counters", "warning")]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_the_order_of_rows_does_not_matter(rule):
    random = np.random.default_rng(0)
    tables = {**syncing(12), "memory_operations": healthy(10).tables["memory_operations"]}
    first = list(rule.evaluate(Window.of(rule.lookback, **tables)))
    mixed = {name: table.where(random.permutation(table.rows)) for name, table in tables.items()}
    assert list(rule.evaluate(Window.of(rule.lookback, **mixed))) == first
