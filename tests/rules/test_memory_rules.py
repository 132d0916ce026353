"""Rules about GPU memory by the allocator's figures, of one rank and of many; and host memory."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.rules.tables import SECOND, START, found, look, samples
from tests.rules.test_machine_rules import cuda

from holter.rules import Job, Window
from holter.rules.framework.allocator_fragmentation import AllocatorFragmentation
from holter.rules.framework.gpu_memory_leak import GPUMemoryLeak
from holter.rules.reliability.out_of_memory_risk import OutOfMemoryRisk
from holter.rules.system.memory_imbalance import MemoryImbalance
from holter.schema.table import Table

MIB, GIB = 2**20, 2**30
TOTAL = 80.0 * GIB
ENDED = Job(start=START, ended=True)


def codes(issues):
    return [(issue.code, issue.severity) for issue in issues]


def allocator(reserved, allocated, *, steps=100, rank=0, **more):
    figures = {"cuda.reserved_peak": np.full(steps, reserved * TOTAL), "cuda.total": TOTAL}
    more = {f"cuda.{name}": value for name, value in more.items()}
    return cuda(figures | {"cuda.allocated_peak": np.asarray(allocated) * TOTAL} | more, rank=rank)


@pytest.mark.parametrize(
    ("reserved", "allocated", "expected"),
    [
        (0.75, 0.50, [("waste", "warning")]),
        (0.95, 0.60, [("waste", "critical")]),
        (0.95, 0.90, []),
        (0.30, 0.05, []),  # much of little: harmless while memory is free
    ],
)
def test_waste_matters_on_a_full_device(reserved, allocated, expected):
    assert codes(found(AllocatorFragmentation(), scalars=allocator(reserved, allocated))) == expected


@pytest.mark.parametrize(("retries", "expected"), [(0, []), (1, "warning"), (6, "critical"), (0.4, "info")])
def test_retries_are_told_by_how_often_they_come(retries, expected):
    rising = np.linspace(3, 3 + retries, 50)
    table = allocator(0.9, 0.85, steps=50, alloc_retries=rising)
    issues = found(AllocatorFragmentation(), scalars=table)
    assert codes(issues) == ([("retries", expected)] if expected else [])


def test_out_of_memory_on_a_fragmented_device_is_critical():
    table = allocator(0.6, 0.4, ooms=np.where(np.arange(100) > 80, 1.0, 0.0))
    assert codes(found(AllocatorFragmentation(), scalars=table)) == [("waste", "critical")]


def test_without_an_allocator_nothing_is_judged():
    other = cuda({"loss": np.ones(100)})
    for rule in (AllocatorFragmentation(), MemoryImbalance(), GPUMemoryLeak()):
        issues, window = look(rule, scalars=other)
        assert (issues, window.points, window.lack.reason) == ([], 0, "no_input")


def ranks(*peaks):
    return Table.concat([allocator(0.9, peak, rank=r) for r, peak in enumerate(peaks)])


@pytest.mark.parametrize(
    ("peaks", "expected"),
    [
        ((0.5, 0.5, 0.5, 0.5), None),
        ((0.42, 0.3, 0.3, 0.3), "info"),
        ((0.55, 0.3, 0.3, 0.3), "warning"),
        ((0.45, 0.2, 0.2, 0.2), "info"),  # half-empty: costs nothing
        ((0.9, 0.5, 0.5, 0.5), "critical"),
    ],
)
def test_the_fullest_rank_limits_all(peaks, expected):
    issues = found(MemoryImbalance(), scalars=ranks(*peaks))
    assert [issue.severity for issue in issues] == ([expected] if expected else [])
    if expected:
        assert issues[0].evidence["rank"] == 0


def test_one_rank_has_nobody_to_be_compared_with():
    assert look(MemoryImbalance(), scalars=ranks(0.9))[1].lack.reason == "no_match"


def allocated(values, **more):
    return cuda({"cuda.allocated": np.asarray(values, dtype=float), "cuda.total": TOTAL}, **more)


def noise(count, seed, scale=200 * MIB):
    """Batches of changing size: memory on top of what stays, never below."""
    return np.abs(np.random.default_rng(seed).normal(0, scale, count))


def test_p9_a_ramp_of_memory_is_a_leak():
    (issue,) = found(GPUMemoryLeak(), scalars=allocated(np.linspace(0.2, 0.9, 800) * TOTAL))
    assert issue.severity == "critical"
    assert issue.evidence["bytes_per_step"] == pytest.approx(0.7 * TOTAL / 800, rel=0.05)


@pytest.mark.parametrize("seed", range(5))
def test_a_leak_is_seen_through_batches_of_changing_size(seed):
    values = 20 * GIB + noise(1000, seed) + np.arange(1000) * 1.5 * MIB
    (issue,) = found(GPUMemoryLeak(), scalars=allocated(values))
    assert issue.severity == "warning"
    assert issue.evidence["bytes_per_step"] == pytest.approx(1.5 * MIB, rel=0.2)


HEALTHY = {
    "changing batches": lambda n, r: 20 * GIB + np.abs(r.normal(0, 2 * GIB, n)),
    "one jump": lambda n, r: (
        np.where(np.arange(n) > n // 2, 30 * GIB, 20 * GIB) + np.abs(r.normal(0, 1e8, n))
    ),
    "saw-tooth": lambda n, r: 20 * GIB + (np.arange(n) % 100) * 50 * MIB,
    "evaluations": lambda n, r: 20 * GIB + (np.arange(n) % 200 > 180) * 9 * GIB,
    "longer and longer, then again": lambda n, r: 20 * GIB + (np.arange(n) % 350) / 350 * 6 * GIB,
    "state of the optimizer": lambda n, r: np.where(np.arange(n) < 15, 5 * GIB, 20 * GIB),
    "a little log": lambda n, r: 20 * GIB + np.arange(n) * 2000.0,
}


@pytest.mark.parametrize("shape", HEALTHY)
def test_healthy_memory_is_no_leak(shape):
    for seed in range(8):
        values = HEALTHY[shape](1500, np.random.default_rng(seed))
        assert found(GPUMemoryLeak(), scalars=allocated(values)) == [], seed


def test_a_slow_leak_is_seen_after_many_steps_in_bounded_state():
    rule, state, issues = GPUMemoryLeak(), {}, []
    for first in range(0, 60_000, 10_000):
        values = 20 * GIB + noise(10_000, first) + (first + np.arange(10_000)) * 20_000.0
        table = allocated(values, first=first, every_s=0.01)
        window = Window.of(rule.lookback, state=json.loads(json.dumps(state)), scalars=table)
        issues += rule.evaluate(window)
        state = window.state
    assert issues
    assert issues[-1].evidence["bytes_per_step"] == pytest.approx(20_000, rel=0.2)
    assert len(json.dumps(state)) < 20_000


def test_the_state_of_a_leak_is_the_same_however_the_data_are_split():
    table = allocated(20 * GIB + noise(900, 1) + np.arange(900) * 1.5 * MIB)
    whole = Window.of(GPUMemoryLeak().lookback, scalars=table)
    first = list(GPUMemoryLeak().evaluate(whole))
    state, cut, issues = {}, START + 333 * SECOND, []
    for start, end in ((START - 1, cut), (cut, START + 900 * SECOND)):
        window = Window.of(GPUMemoryLeak().lookback, start=start, end=end, state=state, scalars=table)
        issues = list(GPUMemoryLeak().evaluate(window))
    assert state == whole.state
    assert issues == first


@pytest.mark.parametrize(
    ("reserved", "needed", "expected"),
    [
        (0.90, 0.89, []),
        (0.93, 0.90, [("device", "warning")]),
        (0.98, 0.95, [("device", "critical")]),
        (0.98, 0.50, []),  # a cache that is given back when it is needed
    ],
)
def test_a_device_that_is_nearly_full(reserved, needed, expected):
    assert codes(found(OutOfMemoryRisk(), job=ENDED, scalars=allocator(reserved, needed))) == expected


def test_a_peak_that_rises_is_a_risk_earlier():
    peaks = np.linspace(0.80, 0.89, 100) * TOTAL
    table = cuda({"cuda.reserved_peak": peaks, "cuda.allocated_peak": peaks, "cuda.total": TOTAL})
    (issue,) = found(OutOfMemoryRisk(), job=ENDED, scalars=table)
    assert (issue.severity, issue.evidence["rises"]) == ("warning", True)


def test_a_level_must_hold_at_two_looks_and_a_failure_is_told_at_once():
    rule, state = OutOfMemoryRisk(), {}
    table = samples({("mem.used_pct", ""): np.full(200, 97.0)})
    assert look(rule, samples=table, state=state)[0] == []
    (issue,) = look(rule, samples=table, state=json.loads(json.dumps(state)))[0]
    assert (issue.code, issue.severity) == ("host", "critical")
    row = {"time": START, "rank": 3, "kind": "oom", "name": "cuda", "detail": "{}"}
    (issue,) = look(rule, events=Table.of("events", [row]))[0]
    assert (issue.code, issue.severity, issue.rank) == ("failed", "critical", 3)
    caught = np.where(np.arange(50) > 30, 2.0, 0.0)
    (issue,) = look(rule, scalars=cuda({"cuda.ooms": caught}))[0]
    assert (issue.code, issue.count) == ("failed", 2)
    assert "default" in OutOfMemoryRisk.packs


@pytest.mark.parametrize(("used", "expected"), [(80, []), (86, "warning"), (96, "critical")])
def test_host_memory(used, expected):
    issues = found(OutOfMemoryRisk(), job=ENDED, samples=samples({("mem.used_pct", ""): np.full(200, used)}))
    assert [issue.severity for issue in issues] == ([expected] if expected else [])


def device(values, owners):
    series = {("gpu.mem.used_pct", "gpu0"): values}
    if owners is not None:
        series["gpu.procs", "gpu0"] = np.full(len(values), float(owners))
    rule, table, state, issues = OutOfMemoryRisk(), samples(series), {}, []
    for end in range(10, len(values) // 2 + 1, 10):  # a look every ten seconds
        bounds = {"start": START + (end - 10) * SECOND, "end": START + end * SECOND}
        window = Window.of(rule.lookback, job=Job(start=START), state=state, samples=table, **bounds)
        issues = list(rule.evaluate(window))
    return issues


def test_memory_that_a_framework_took_all_at_once_is_no_risk():
    assert device(np.full(600, 98.0), 1) == []
    assert codes(device(np.concatenate([np.full(300, 70.0), np.full(300, 98.0)]), 1)) == [
        ("device", "critical")
    ]


@pytest.mark.parametrize("owners", [0, None])
def test_memory_that_may_be_somebody_elses_is_no_risk_of_ours(owners):
    assert device(np.concatenate([np.full(300, 70.0), np.full(300, 98.0)]), owners) == []
