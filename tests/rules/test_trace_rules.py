"""Rules on what ran on accelerators, on traces made so that the answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.tables import SECOND, START, found, look, samples, steps
from tests.rules.traces import MS, US, Trace

from holter.rules import Window
from holter.rules.framework.comm_not_overlapped import CommNotOverlapped, waiting
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
GEMM32, GEMM16 = "ampere_sgemm_128x64_nn", "ampere_bf16_s16816gemm_bf16_128x128_tn"


def codes(issues):
    return [(issue.code, issue.severity) for issue in issues]


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


def communicating(exposed_ms, *, count=10, ranks=2, late_ms=0.0, **columns):
    """Compute of 6 ms, then a collective that nothing hides; rank 1 comes late to it."""
    trace = Trace()
    length = 6 + exposed_ms + late_ms + 1
    for rank in range(ranks):
        for i in range(count):
            at = i * length * MS
            trace.step(at, length * MS, i, rank=rank)
            own = late_ms if rank == 1 else 0.0
            trace.kernel(at, (6 + own) * MS, rank=rank)
            wait = late_ms - own
            begin = at + (6 + own) * MS
            trace.collective(begin, (exposed_ms + wait) * MS, rank=rank, step=i, group_size=ranks, **columns)
    return trace.tables


@pytest.mark.parametrize(
    ("exposed", "severity"), [(0.3, None), (0.5, "info"), (1.0, "warning"), (4.0, "critical")]
)
def test_exposed_transfer(exposed, severity):
    issues = found(CommNotOverlapped(), **communicating(exposed))
    assert [issue.severity for issue in issues] == ([severity] if severity else [])
    if severity:
        assert issues[0].evidence["transfer_pct"] == pytest.approx(100 * exposed / (7 + exposed), rel=0.01)
        assert issues[0].evidence["overlap_pct"] == pytest.approx(0)


def test_waiting_for_a_slower_rank_is_not_blamed_on_communication():
    issues, window = look(CommNotOverlapped(), **communicating(0.2, late_ms=6.0))
    assert issues == []
    assert window.details["ranks"]["0"]["transfer_pct"] < 5
    alone = communicating(0.2, late_ms=6.0)
    alone = {name: table.where(table["rank"] == 0) for name, table in alone.items()}
    assert found(CommNotOverlapped(), **alone)  # nobody can tell from one rank


def test_waiting_is_matched_by_order_within_a_step_and_group():
    first, second = Trace(), Trace()
    first.collective(0, 30, step=0)
    first.collective(50, 10, step=0)
    first.collective(90, 5, step=1, process_group="other")
    second.collective(1_000, 20, rank=1, step=0)
    second.collective(1_100, 40, rank=1, step=0)
    waits = waiting([first.tables["kernels"], second.tables["kernels"]])
    assert [w.tolist() for w in waits] == [[10, 0, 0], [0, 30]]


@pytest.mark.parametrize(
    ("rule", "columns", "code"),
    [
        (CommNotOverlapped(), {"bytes": 64 << 20}, "exposed"),
        (CommNotOverlapped(link_gb_s=100), {"bytes": 64 << 20}, "slow_link"),
        (CommNotOverlapped(link_gb_s=20), {"bytes": 64 << 20}, "exposed"),
    ],
)
def test_the_speed_of_a_link_is_judged_where_it_is_given(rule, columns, code):
    (issue,) = found(rule, **communicating(4.0, **columns))
    assert issue.code == code
    assert issue.evidence["bus_gb_s"] == pytest.approx((64 << 20) / (4 * MS), rel=0.01)  # x 2 (n-1)/n = 1


def test_many_small_messages():
    trace = Trace()
    for i in range(8):
        at = i * 10 * MS
        trace.step(at, 10 * MS, i)
        trace.kernel(at, 6 * MS)
        for k in range(60):
            trace.collective(at + 6 * MS + k * 60 * US, 50 * US, step=i, bytes=4096)
    (issue,) = found(CommNotOverlapped(), **trace.tables)
    assert (issue.code, issue.severity) == ("small_messages", "critical")


def launching(*, gap_us, kernel_us, late, count=8, kernels=100, loading=""):
    """Kernels with gaps between them; the host asks for each in the gap (late) or far ahead."""
    trace = Trace()
    length = kernels * (gap_us + kernel_us) * US
    for i in range(count):
        at = i * length
        trace.step(at, length, i)
        for k in range(kernels):
            begin = at + k * (gap_us + kernel_us) * US
            launched = begin - gap_us * US if late else begin - 3 * MS
            trace.kernel(begin, kernel_us * US, launched=launched)
        if loading == "recorded":
            trace.span("data_loading", at, length)
        elif loading:
            trace.operator("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at, length)
    return trace.tables


@pytest.mark.parametrize(
    ("about", "expected"),
    [
        ({"gap_us": 30, "kernel_us": 8, "late": True}, [("small_kernels", "critical")]),
        ({"gap_us": 30, "kernel_us": 100, "late": True}, [("python_overhead", "warning")]),
        ({"gap_us": 10, "kernel_us": 100, "late": True}, [("python_overhead", "info")]),
        ({"gap_us": 3, "kernel_us": 100, "late": True}, []),
        ({"gap_us": 30, "kernel_us": 8, "late": False}, []),  # dependencies between streams, not the host
        ({"gap_us": 30, "kernel_us": 8, "late": True, "loading": "recorded"}, []),
        ({"gap_us": 30, "kernel_us": 8, "late": True, "loading": "imported"}, []),
    ],
)
def test_gaps_are_the_hosts_fault_only_where_it_asked_late(about, expected):
    assert codes(found(CpuBoundLaunch(), **launching(**about))) == expected


def test_the_share_of_launch_gaps_is_exact():
    (issue,) = found(CpuBoundLaunch(), **launching(gap_us=20, kernel_us=80, late=True))
    assert issue.evidence["launch_gap_pct"] == pytest.approx(20, abs=0.1)
    assert issue.device == "gpu0"


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


def syncing(per_step, *, idle_us=200, count=10, loading=False):
    """Stretches of work, each followed by a sync and by an idle stretch of the device."""
    trace = Trace()
    part = (1000 + idle_us) * US
    for i in range(count):
        at = i * per_step * part
        trace.step(at, per_step * part, i)
        for k in range(per_step):
            begin = at + k * part
            trace.kernel(begin, 1 * MS, launched=begin - 10 * US)
            trace.sync(begin + 10 * US, 1 * MS, name="aten::item (train.py:42)" if k else "clip (opt.py:7)")
            if loading:
                trace.span("data_loading", begin + 1 * MS, idle_us * US)
    return trace.tables


@pytest.mark.parametrize(
    ("about", "severity"),
    [
        ({"per_step": 2, "idle_us": 20}, None),
        ({"per_step": 2, "idle_us": 60}, "info"),
        ({"per_step": 20, "idle_us": 60}, "warning"),
        ({"per_step": 20, "idle_us": 20}, None),
        ({"per_step": 3, "idle_us": 200}, "warning"),
        ({"per_step": 3, "idle_us": 500}, "critical"),
        ({"per_step": 3, "idle_us": 500, "loading": True}, None),  # it idles for data
    ],
)
def test_syncs_are_judged_by_the_harm_they_do(about, severity):
    issues = found(HostDeviceSyncStorm(), **syncing(**about))
    assert [issue.severity for issue in issues] == ([severity] if severity else [])


def test_the_line_that_does_the_harm_is_named():
    (issue,) = found(HostDeviceSyncStorm(), **syncing(20, idle_us=200))
    assert issue.evidence["lines"][0]["name"] == "aten::item (train.py:42)"
    assert issue.evidence["lines"][0]["per_step"] == 19
    assert issue.evidence["syncs_per_step"] == 20
    assert "train.py:42" in issue.summary


@pytest.mark.parametrize(("count", "severity"), [(5, None), (30, "info"), (150, "warning")])
def test_without_kernels_syncs_are_counted(count, severity):
    trace = Trace()
    for i in range(30):
        trace.step(i * 10 * MS, 10 * MS, i)
        for k in range(count):
            trace.sync(i * 10 * MS + k * 50 * US, 10 * US)
    tables = {name: trace.tables[name] for name in ("syncs", "steps")}
    issues = found(HostDeviceSyncStorm(), **tables)
    assert [issue.severity for issue in issues] == ([severity] if severity else [])


def test_a_trace_without_a_table_of_steps_counts_from_first_kernel_to_first_kernel():
    trace = Trace()
    for i in range(8):
        trace.kernel(i * 10 * MS, 6 * MS, step=i)
        trace.collective(i * 10 * MS + 6 * MS, 3 * MS, step=i)
    (issue,) = found(CommNotOverlapped(), kernels=trace.tables["kernels"])
    assert issue.evidence["transfer_pct"] == pytest.approx(30)
    assert issue.evidence["profiled_steps"] == 7


def test_what_was_judged_is_not_judged_again():
    tables = communicating(4.0)
    rule = CommNotOverlapped()
    later = Window.of(rule.lookback, start=START + 2 * SECOND, end=START + 12 * SECOND, **tables)
    assert list(rule.evaluate(later)) == []
    assert later.idle


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_the_order_of_rows_does_not_matter(rule):
    random = np.random.default_rng(0)
    tables = {**syncing(12), "memory_operations": healthy(10).tables["memory_operations"]}
    first = list(rule.evaluate(Window.of(rule.lookback, **tables)))
    mixed = {name: table.where(random.permutation(table.rows)) for name, table in tables.items()}
    assert list(rule.evaluate(Window.of(rule.lookback, **mixed))) == first
