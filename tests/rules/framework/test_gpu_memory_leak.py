"""Tests of the rule GPUMemoryLeak."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.rules.allocators import TOTAL, allocated
from tests.rules.tables import GIB, MIB, SECOND, START, found

from holter.rules import Window
from holter.rules.framework.gpu_memory_leak import GPUMemoryLeak


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
