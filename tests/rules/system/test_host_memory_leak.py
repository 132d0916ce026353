"""Tests of the rule HostMemoryLeak."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.tables import GIB, MIB, START, look, samples

from holter.rules import Job
from holter.rules.system.host_memory_leak import HostMemoryLeak
from holter.schema.table import Table


def memory(series, *, interval_s=10.0):
    return samples({("proc.private", role): values for role, values in series.items()}, interval_s=interval_s)


def leak(table, minutes, nodes=None):
    job = Job(start=START, nodes=nodes or {"n0": {"memory_bytes": 64 * GIB}})
    return look(HostMemoryLeak(), job=job, samples=table)[0]


@pytest.mark.parametrize("seed", range(5))
def test_a_leak_is_found_in_noise(seed):
    t = np.arange(6 * 50)
    values = 4 * GIB + 40 * MIB * t / 6 + np.random.default_rng(seed).normal(0, 100 * MIB, len(t))
    (issue,) = leak(memory({"worker": values, "trainer": np.full(len(t), float(GIB))}), 50)
    assert issue.evidence["cause"] == "workers"
    assert issue.evidence["slope_bytes_per_h"] == pytest.approx(40 * MIB * 60, rel=0.2)
    assert issue.severity == "warning"


@pytest.mark.parametrize("seed", range(5))
def test_noise_one_jump_and_growth_that_levels_off_are_no_leaks(seed):
    random = np.random.default_rng(seed)
    t = np.arange(6 * 60)
    noise = random.normal(0, 100 * MIB, len(t))
    assert leak(memory({"trainer": 4 * GIB + noise}), 60) == []
    assert leak(memory({"trainer": 4 * GIB + noise + (t > 200) * 3 * GIB}), 60) == []
    assert leak(memory({"trainer": 4 * GIB + noise + 3 * GIB * (1 - np.exp(-t / 40))}), 60) == []


def test_a_leak_that_soon_fills_the_memory_is_critical():
    t = np.arange(6 * 60)
    own = memory({"trainer": 20 * GIB + 200 * MIB * t / 6})
    free = samples({("mem.available", ""): 40 * GIB - 200 * MIB * t / 6}, interval_s=10.0)
    (issue,) = leak(Table.concat([own, free]), 60)
    assert issue.severity == "critical"
    assert issue.evidence["hours_to_90_pct"] == pytest.approx((28 - 6.4) * 1024 / 200 / 60, rel=0.1)


def test_a_short_job_is_not_judged_for_leaks():
    job = Job(start=START)
    issues, window = look(HostMemoryLeak(), job=job, samples=memory({"trainer": [1.0 * GIB] * 60}))
    assert issues == []
    assert window.lack.reason in ("patience_not_reached", "no_input")
