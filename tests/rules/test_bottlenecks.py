"""CPUBottleneck and IOBottleneck: shares of snapshots, and loading that is mostly reading."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.tables import SECOND, found, look, samples, steps

from holter.analysis.machine.snapshots import totals
from holter.rules.system.cpu_bottleneck import CPUBottleneck
from holter.rules.system.io_bottleneck import IOBottleneck
from holter.schema.table import Table


def snapshots(metric, bad, count, high=95.0):
    hit = np.arange(count) < bad
    series = {("gpu.util", "gpu0"): np.where(hit, 5.0, 90.0), (metric, "cpu0"): np.where(hit, high, 10.0)}
    return samples({**series, (metric, "cpu1"): np.full(count, 10.0)})


@pytest.mark.parametrize(("bad", "count", "fires"), [(105, 320, False), (2245, 3670, True)])
def test_p5_p6_cpu(bad, count, fires):
    rule = CPUBottleneck.of({"patience": 100}, defaults="classic")
    issues = found(rule, samples=snapshots("cpu.core.util", bad, count))
    assert bool(issues) == fires
    if fires:
        assert issues[0].evidence["bottleneck_pct"] == pytest.approx(61.17, abs=0.01)


def test_p7_io():
    rule = IOBottleneck.of(defaults="classic")
    assert found(rule, samples=snapshots("cpu.core.iowait", 232, 3670, high=80.0)) == []
    assert found(rule, samples=snapshots("cpu.core.iowait", 2232, 3670, high=80.0))


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


def test_pressure_counts_where_cores_say_nothing():
    count = 1300
    table = samples({("gpu.util", "gpu0"): np.full(count, 20.0), ("psi.io", ""): np.full(count, 45.0)})
    assert [i.code for i in found(IOBottleneck(), samples=table)] == ["machine"]


@pytest.mark.parametrize(("frame", "codes"), [("open (fsspec/spec.py:9)", ["reads"]), ("crop (t.py:3)", [])])
def test_loading_that_is_mostly_reading_needs_no_gpu(frame, codes):
    table = steps([0.1] * 300, data_loading=0.5, forward=0.3)
    rows = []
    for row in table.to_rows():
        # One worker reads throughout the wait of each step.
        span = {
            "rank": 0,
            "node": "n0",
            "mode": "train",
            "time": row["time"],
            "duration": row["data_loading"],
        }
        rows += [
            {**span, "worker": -1, "thread": 0, "step": row["step"], "phase": "data_loading", "value": 0.0},
            {**span, "worker": 0, "phase": "fetch", "value": 32.0},
            {**span, "worker": 0, "phase": "stack", "name": f"Files.__getitem__ (d.py:1);{frame}"},
        ]
    issues = found(IOBottleneck(), steps=table, spans=Table.of("spans", rows))
    assert [i.code for i in issues] == codes
    assert table["duration"].sum() == 30 * SECOND


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
