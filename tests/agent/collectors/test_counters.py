"""Performance counters by the kernel's own call: what it counts is true, and what it refuses is said."""

from __future__ import annotations

import errno
import os
import time

import pytest

from holter.agent.collectors import Machine, collectors
from holter.agent.collectors.counters import EVENTS, Counters
from holter.agent.machine import perf_event
from holter.schema.metrics import METRICS

CPU_CLOCK, CONTEXT_SWITCHES = (perf_event.HardwareCounter(1, number) for number in (0, 3))  # of software
CORE = min(os.sched_getaffinity(0))


@pytest.fixture
def group():
    made = perf_event.Group(CORE)
    try:
        made.add(CPU_CLOCK)
    except perf_event.Refused as error:
        pytest.skip(f"counters of a core cannot be opened here: {error.strerror}")
    made.add(CONTEXT_SWITCHES)
    yield made
    made.close()


def test_a_group_counts_what_happens_on_its_core(group):
    clock, switches = group.read()
    time.sleep(0.05)
    for _ in range(20):
        time.sleep(0.001)
    later, more = group.read()
    assert 50e6 < later - clock < 60e9  # the clock of a core runs on while we sleep
    assert more >= switches


def test_a_counter_that_there_is_not_is_refused_with_the_reason(group):
    with pytest.raises(perf_event.Refused, match="no such counter") as refused:
        group.add(perf_event.HardwareCounter(99, 1))
    assert refused.value.errno in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP)
    assert len(group.read()) == 2


def test_a_core_that_there_is_not_is_refused():
    with pytest.raises(OSError, match=r".+"):
        perf_event.Group(100_000).add(CPU_CLOCK)


def test_the_collector_gives_rates_or_says_why_not():
    assert set(EVENTS) <= set(METRICS)
    made, missing = collectors(Machine())
    collector = next((one for one in made if isinstance(one, Counters)), None)
    told = dict(missing)
    if collector is None:
        assert any(
            word in told["counters"] for word in ("perf_event_paranoid", "counter", "performance events")
        )
        return
    try:
        assert list(collector.read(0)) == []
        time.sleep(0.05)
        found = {(device, metric): value for device, metric, value in collector.read(50_000_000)}
        assert {metric for _, metric in found} == set(EVENTS) - set(told)
        assert all(value >= 0 for value in found.values())
    finally:
        collector.close()
