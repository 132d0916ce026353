"""Healthy machines and shared machines: no rule about machines fires."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.rules.tables import START

from holter.evaluation import choose
from holter.evaluation.evaluator import Evaluator
from holter.evaluation.facts import FactsTracker
from holter.schema.table import Table

SECOND = 1_000_000_000
GIB = 2**30
RULES = [
    "AllocatorFragmentation",
    "CPUContention",
    "CPUOversubscription",
    "CpuBoundLaunch",
    "DiskFull",
    "EnergyWaste",
    "GPUMemoryIncrease",
    "GPUMemoryLeak",
    "HardwareError",
    "HostMemoryLeak",
    "LoadBalancing",
    "LowMFU",
    "MemoryImbalance",
    "MixedPrecisionNotUsed",
    "NetworkBottleneck",
    "OutOfMemoryRisk",
    "ResourceGrowth",
    "StorageBottleneck",
    "ThermalThrottling",
    "UnpinnedH2DCopy",
    "UnusedGPU",
]
MINUTES = 45
COUNT = MINUTES * 12
EVERY_NS = 5 * SECOND


def host(random: np.random.Generator) -> dict[tuple[str, str], Any]:
    return {
        ("cpu.util", ""): random.uniform(20, 60, COUNT),
        ("cpu.load1", ""): random.uniform(2, 6, COUNT),
        ("psi.cpu", ""): random.uniform(0, 10, COUNT),
        ("psi.io", ""): random.uniform(0, 5, COUNT),
        ("mem.used_pct", ""): random.uniform(40, 50, COUNT),
        ("proc.private", "trainer"): 4e9 + random.normal(0, 5e7, COUNT),
        ("disk.free_pct", ""): np.full(COUNT, 50.0),
        ("net.rx", ""): random.uniform(0, 1e8, COUNT),
        **{("cpu.core.util", f"cpu{i}"): random.uniform(20, 60, COUNT) for i in range(8)},
    }


def gpu(
    random: np.random.Generator, device: str, *, low: float = 85, high: float = 99
) -> dict[tuple[str, str], Any]:
    return {
        ("gpu.util", device): random.uniform(low, high, COUNT),
        ("gpu.mem.used_pct", device): np.full(COUNT, 62.0),
        ("gpu.mem.used", device): np.full(COUNT, 50.0 * GIB),
        ("gpu.power", device): random.uniform(400, 600, COUNT),
        ("gpu.clock_sm", device): random.normal(1700, 15, COUNT),
        ("gpu.throttle_reasons", device): np.where(random.random(COUNT) < 0.8, 4.0, 0.0),
        ("gpu.temp", device): random.uniform(60, 70, COUNT),
        ("gpu.temp_slowdown", device): np.full(COUNT, 92.0),
        ("gpu.ecc_uncorrected", device): np.zeros(COUNT),
    }


def cpu_only(random):
    return host(random), 1, None


def one_gpu(random):
    return {**host(random), **gpu(random, "gpu0"), ("gpu.procs", "gpu0"): np.ones(COUNT)}, 1, 62.0


def four_gpus(random):
    series = host(random)
    for i in range(4):
        series |= {**gpu(random, f"gpu{i}"), ("gpu.procs", f"gpu{i}"): np.ones(COUNT)}
    return series, 4, 62.0


def cpu_job_beside_somebody_elses_gpu(random):
    series = {**host(random), **gpu(random, "gpu0", low=55, high=70)}
    series["gpu.throttle_reasons", "gpu0"] = np.full(COUNT, 32.0)
    series["gpu.util", "gpu1"] = series["gpu.mem.used", "gpu1"] = np.zeros(COUNT)
    series["gpu.procs", "gpu0"] = series["gpu.procs", "gpu1"] = np.zeros(COUNT)
    return series, 1, None


def our_gpu_beside_somebody_elses(random):
    series = {**one_gpu(random)[0], **gpu(random, "gpu1", low=0, high=20)}
    series["gpu.mem.used_pct", "gpu1"] = np.linspace(20, 99, COUNT)
    series["gpu.xid", "gpu1"] = np.full(COUNT, 31.0)
    series["gpu.procs", "gpu1"] = np.zeros(COUNT)
    return series, 1, 62.0


def all_memory_taken_at_once(random):
    series = one_gpu(random)[0]
    series["gpu.mem.used_pct", "gpu0"] = np.full(COUNT, 97.5)
    return series, 1, None


def bursts(random):
    """A job that computes for a minute and then pauses for one."""
    series = four_gpus(random)[0]
    on = (np.arange(COUNT) // 12) % 2 == 0
    for i in range(4):
        series["gpu.util", f"gpu{i}"] = np.where(on, series["gpu.util", f"gpu{i}"], 8.0)
        series["gpu.power", f"gpu{i}"] = np.where(on, 500.0, 90.0)
        series["gpu.clock_sm", f"gpu{i}"] = np.where(on, series["gpu.clock_sm", f"gpu{i}"], 345.0)
    series["psi.io", ""] = np.where(on, 2.0, 30.0)
    return series, 4, 62.0


MACHINES = (
    cpu_only,
    one_gpu,
    four_gpus,
    cpu_job_beside_somebody_elses_gpu,
    our_gpu_beside_somebody_elses,
    all_memory_taken_at_once,
    bursts,
)


def minutes(
    series: dict[tuple[str, str], Any], ranks: int, full_pct: float | None, minute: int
) -> dict[str, Table]:
    """Return one minute of a job: its samples, its steps of half a second, the allocator's figures."""
    begin = START + minute * 60 * SECOND
    rows = [
        {"time": begin + i * EVERY_NS, "metric": metric, "device": device, "value": float(value), "node": "n"}
        for (metric, device), values in series.items()
        for i, value in enumerate(values[minute * 12 : minute * 12 + 12])
    ]
    spans, scalars = [], []
    for rank in range(ranks):
        for i in range(120):
            step = minute * 120 + i
            at = {"rank": rank, "node": "n", "step": step, "mode": "train", "worker": -1, "thread": 0}
            time = begin + i * SECOND // 2
            spans.append(
                {**at, "time": time, "duration": SECOND // 100, "phase": "data_loading", "value": 0.0}
            )
            spans.append({**at, "time": time + SECOND // 50, "duration": SECOND // 4, "phase": "forward"})
            spans.append({**at, "time": time, "duration": SECOND // 2, "phase": "step"})
            if full_pct is not None and i % 10 == 0:
                figures = {"total": 80.0, "reserved_peak": 0.8 * full_pct, "allocated_peak": 0.75 * full_pct}
                figures |= {"allocated": 20.0 + (step % 70) / 100, "ooms": 0.0, "alloc_retries": 0.0}
                for name, gib in figures.items():
                    row = {"time": time, "rank": rank, "node": "n", "step": step, "mode": "train"}
                    scalars.append({**row, "name": f"cuda.{name}", "value": gib * GIB})
    event = {
        "time": begin,
        "rank": 0,
        "node": "n",
        "kind": "process",
        "name": "",
        "detail": '{"role": "trainer"}',
    }
    made = {"samples": rows, "spans": spans, "scalars": scalars, "events": [event] if minute == 0 else []}
    return {name: Table.of(name, listed) for name, listed in made.items()}


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.__name__)
def test_all_is_well(machine):
    series, ranks, full_pct = machine(np.random.default_rng(17))
    runs = choose(RULES)
    gpus = [{"device": f"gpu{i}", "name": "NVIDIA H100 80GB HBM3"} for i in range(4)]
    nodes = {"n": {"cpus": 8, "memory_bytes": 64 * GIB, "gpus": gpus}}
    evaluator = Evaluator(runs, FactsTracker(start=START, interval_ms=5000, nodes=nodes))
    for minute in range(MINUTES):
        for name, table in minutes(series, ranks, full_pct, minute).items():
            evaluator.take(name, table)
        evaluator.advance(START + (minute + 1) * 60 * SECOND - 1)
    evaluator.advance(START + MINUTES * 60 * SECOND, ended=True)
    told = {run.name: [(i.severity, i.summary) for i in run.issues.values()] for run in runs if run.issues}
    assert told == {}
    assert not [run.error for run in runs if run.error]
    judged = {run.name for run in runs if run.covered}
    assert {"DiskFull", "OutOfMemoryRisk", "CPUOversubscription"} <= judged
    if full_pct is not None:
        assert {"GPUMemoryLeak", "AllocatorFragmentation", "ThermalThrottling", "HardwareError"} <= judged
