"""Tests of the rule MemoryRunsOut."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.tables import GIB, MIB, SECOND, START, look, samples

from holter.rules import Job
from holter.rules.system.memory_runs_out import MemoryRunsOut
from holter.schema.table import Table

COUNT = 160
"""Readings of half a second: 80 s."""


def judged(memory, *, free=20.0 * GIB, first_s=1, **parameters):
    """Let the rule look at the memory of a trainer, with so much of the machine's memory available."""
    own = {("proc.private", "trainer"): memory, ("mem.available", ""): np.full(COUNT, free)}
    job = Job(start=START, first_step=START + first_s * SECOND)
    return look(MemoryRunsOut(**parameters), job=job, samples=samples(own))


def leaking(mb_per_s, seed=0):
    t = np.arange(COUNT) / 2
    return 2 * GIB + mb_per_s * 1e6 * t + np.random.default_rng(seed).normal(0, 5 * MIB, COUNT)


@pytest.mark.parametrize("seed", range(5))
def test_a_fast_leak_is_found_after_a_minute(seed):
    (issue,), _ = judged(leaking(34, seed))
    assert issue.evidence["growth_bytes_per_s"] == pytest.approx(34e6, rel=0.1)
    assert issue.evidence["full_in_s"] == pytest.approx(20 * GIB / 34e6, rel=0.1)
    assert issue.severity == "warning"
    assert (
        "MB per second; at this rate it is full in 11 minutes" in issue.summary or "10 min" in issue.summary
    )


def test_it_is_critical_when_little_is_left():
    (issue,), _ = judged(leaking(34), free=2.0 * GIB)
    assert issue.severity == "critical"


@pytest.mark.parametrize("seed", range(5))
def test_noise_jumps_slow_growth_and_growth_that_levels_off_are_silent(seed):
    t = np.arange(COUNT) / 2
    noise = np.random.default_rng(seed).normal(0, 20 * MIB, COUNT)
    for memory in (
        2 * GIB + noise,
        2 * GIB + noise + (t > 60) * 3 * GIB,
        2 * GIB + noise + 4 * GIB * (1 - np.exp(-t / 12)),
        leaking(1, seed),
    ):
        assert judged(memory)[0] == []


def test_the_start_of_the_training_is_not_judged():
    issues, window = judged(leaking(34), first_s=40)
    assert issues == []
    assert window.lack.reason == "patience_not_reached"


def test_without_readings_it_says_so():
    job = Job(start=START, first_step=START)
    table = samples({("mem.available", ""): np.full(COUNT, 1.0)})
    issues, window = look(MemoryRunsOut(), job=job, samples=table)
    assert issues == []
    assert window.lack.reason == "no_input"
    sparse = samples({("proc.private", "trainer"): [1.0] * 8}, interval_s=10.0)
    issues, window = look(MemoryRunsOut(), job=job, samples=Table.concat([sparse, table]))
    assert (issues, window.lack.reason) == ([], "patience_not_reached")
