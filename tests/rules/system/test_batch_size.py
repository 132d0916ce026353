"""Tests of the rule BatchSize."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.allocators import cuda
from tests.rules.tables import GIB, found, look, samples, steps

from holter.rules.system.batch_size import BatchSize


def machine(cpu, gpu, memory, *, metric="gpu.mem.busy", count=1001):
    series = {("cpu.core.util", "cpu0"): cpu, ("gpu.util", "gpu0"): gpu, (metric, "gpu0"): memory}
    return samples({key: np.full(count, float(v)) if np.isscalar(v) else v for key, v in series.items()})


@pytest.mark.parametrize(
    ("cpu", "gpu", "memory", "fires"),
    [(60, 60, 60, True), (75, 60, 60, False), (60, 75, 60, False), (60, 60, 75, False)],
)
def test_p17_batch_size(cpu, gpu, memory, fires):
    rule = BatchSize.of(defaults="classic")
    issues = found(rule, samples=machine(cpu, gpu, memory))
    assert bool(issues) == fires
    if fires:
        assert issues[0].severity == "info"
        assert issues[0].evidence["gpu_memory_p95"] == 60
    _, window = look(rule, samples=machine(cpu, gpu, memory))
    assert window.details["boxes"]["gpu of n0/gpu0"]["p75"] == pytest.approx(gpu, rel=0.01)
    assert set(window.details["boxes"]) == {"cpu of n0", "gpu of n0/gpu0", "memory of n0/gpu0"}


def test_batch_size_needs_patience():
    issues, window = look(BatchSize.of(defaults="classic"), samples=machine(60, 60, 60, count=1000))
    assert issues == []
    assert (window.lack.reason, window.lack.have) == ("patience_not_reached", 1000)


def test_the_cpu_is_the_mean_of_its_cores():
    cores = {("cpu.core.util", f"cpu{i}"): np.full(1001, 99.0 if i == 0 else 10.0) for i in range(8)}
    gpu = {("gpu.util", "gpu0"): np.full(1001, 40.0), ("gpu.mem.busy", "gpu0"): np.full(1001, 20.0)}
    assert found(BatchSize.of(defaults="classic"), samples=samples(cores | gpu))


@pytest.mark.parametrize(("loading", "fires"), [(0.02, True), (0.3, False)])
def test_a_starving_gpu_needs_no_larger_batch(loading, fires):
    table = machine(50, 40, 30, metric="gpu.mem.used_pct")
    issues = found(BatchSize(), samples=table, steps=steps([1.0] * 500, data_loading=loading, forward=0.3))
    assert bool(issues) == fires


def test_how_much_larger_a_batch_would_fit_is_estimated():
    table = machine(50, 40, 30, metric="gpu.mem.used_pct")
    told = {"cuda.allocated_peak": 24 * GIB, "cuda.allocated": 8 * GIB, "cuda.total": 80 * GIB}
    scalars = cuda(told | {"cuda.total": np.full(450, 80.0 * GIB)})
    issue = found(BatchSize(), samples=table, scalars=scalars)[0]
    assert issue.evidence["batch_multiplier"] == 4  # (0.9 - 0.1) / (0.3 - 0.1)


def test_a_framework_that_takes_all_memory_at_once_gets_no_advice_to_raise_the_batch():
    assert found(BatchSize(), samples=machine(50, 40, 95, metric="gpu.mem.used_pct")) == []
