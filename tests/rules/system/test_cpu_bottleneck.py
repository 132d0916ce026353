"""Tests of the rule CPUBottleneck."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.snapshots import snapshots
from tests.rules.tables import found, look, samples

from holter.analysis.machine.snapshots import totals
from holter.rules.system.cpu_bottleneck import CPUBottleneck
from holter.rules.system.io_bottleneck import IOBottleneck
from holter.schema.table import Table


@pytest.mark.parametrize(("bad", "count", "fires"), [(105, 320, False), (2245, 3670, True)])
def test_p5_p6_cpu(bad, count, fires):
    rule = CPUBottleneck.of({"patience": 100}, defaults="classic")
    issues = found(rule, samples=snapshots("cpu.core.util", bad, count))
    assert bool(issues) == fires
    if fires:
        assert issues[0].evidence["bottleneck_pct"] == pytest.approx(61.17, abs=0.01)


def test_classic_patience_counts_snapshots():
    rule = CPUBottleneck.of(defaults="classic")
    issues, window = look(rule, samples=snapshots("cpu.core.util", 1000, 1000))
    assert issues == []
    assert (window.lack.reason, window.lack.have) == ("patience_not_reached", 1000)
    assert found(rule, samples=snapshots("cpu.core.util", 1001, 1001))


def test_readings_within_20_ms_are_one_snapshot():
    table = snapshots("cpu.core.util", 1200, 1200)
    shifted = Table({**table.columns, "time": table["time"] + (table["device"] == "cpu0") * 15_000_000})
    rule = CPUBottleneck.of(defaults="classic")
    assert found(rule, samples=shifted)[0].evidence["snapshots"] == 1200


def test_one_busy_core_of_many_is_no_bottleneck_in_the_modern_profile():
    count = 1300
    cores = {("cpu.core.util", f"cpu{i}"): np.full(count, 99.0 if i == 0 else 5.0) for i in range(64)}
    roles = {("proc.count", "trainer"): np.full(count, 1.0), ("proc.count", "worker"): np.full(count, 8.0)}
    table = samples({("gpu.util", "gpu0"): np.full(count, 20.0), **cores, **roles})
    assert found(CPUBottleneck(), samples=table) == []
    assert found(CPUBottleneck(cpu_stat="any_core", patience_s=300), samples=table)


def test_every_process_saturated_is_a_bottleneck():
    count = 1300
    cores = {("cpu.core.util", f"cpu{i}"): np.full(count, 97.0 if i < 9 else 5.0) for i in range(64)}
    roles = {("proc.count", "trainer"): np.full(count, 1.0), ("proc.count", "worker"): np.full(count, 8.0)}
    table = samples({("gpu.util", "gpu0"): np.full(count, 20.0), **cores, **roles})
    assert found(CPUBottleneck(), samples=table)


def test_without_gpu_or_cores_nothing_is_judged():
    for table in (
        samples({("gpu.util", "gpu0"): [5.0] * 2000}),
        samples({("cpu.core.util", "cpu0"): [99.0] * 2000}),
    ):
        issues, window = look(CPUBottleneck(), samples=table)
        assert issues == []
        assert window.points == 0
        assert window.lack.reason == "no_input"


def test_the_details_name_the_snapshots_and_how_many_devices_were_at_fault():
    _, window = look(CPUBottleneck.of(defaults="classic"), samples=snapshots("cpu.core.util", 3, 1200))
    told = window.details["n0"]
    assert (told["low_gpu_utilization"], told["snapshots"], told["bottleneck_count"]) == (3, 1200, 3)
    assert list(told["bottlenecks"].values()) == [{"GPUs": 1, "CPUs": 1}] * 3
    _, window = look(IOBottleneck.of(defaults="classic"), samples=snapshots("cpu.core.iowait", 500, 1200))
    assert len(window.details["n0"]["bottlenecks"]) == 100


def test_snapshots_are_counted_over_the_whole_job():
    both, low = np.array([True, False, False]), np.array([True, True, False])
    assert totals(both, low) == (1, 3, 2)
    assert totals(both, low, [4, 10, 5]) == (5, 13, 7)
