"""Tests of the rule ThermalThrottling."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.gpus import gpus
from tests.rules.tables import START, codes, found, look

from holter.rules import Job
from holter.rules.system.thermal_throttling import ThermalThrottling


def job(*names, **facts):
    gpus = [{"device": f"gpu{i}", "name": name} for i, name in enumerate(names)]
    return Job(start=START, nodes={"n0": {"gpus": gpus}}, **facts)


HEAT, CAP, SLOW = 0x20, 0x4, 0x8


@pytest.mark.parametrize(
    ("bits", "of_1200", "expected"),
    [
        (HEAT, 1, [("heat", "info")]),
        (HEAT, 12, [("heat", "warning")]),
        (HEAT, 120, [("heat", "critical")]),
        (SLOW, 2, [("hardware", "warning")]),
        (SLOW, 60, [("hardware", "critical")]),
        (CAP, 1200, []),
        (0x1, 1200, []),
    ],
)
def test_why_clocks_are_lowered_counts_in_busy_time(bits, of_1200, expected):
    reasons = np.where(np.arange(1200) % (1200 // of_1200) == 0, bits, 0)
    table = gpus(1200, util=90, throttle_reasons=reasons, clock_sm=1700)
    assert codes(found(ThermalThrottling(), samples=table)) == expected


def test_an_idle_gpu_lowers_its_clock_by_right():
    idle = gpus(1200, util=5, throttle_reasons=HEAT | 0x1, clock_sm=345)
    issues, window = look(ThermalThrottling(), samples=idle)
    assert issues == []
    assert window.lack.reason == "patience_not_reached"


@pytest.mark.parametrize(("clock", "expected"), [(1650, []), (1550, "warning"), (1400, "critical")])
def test_a_gpu_that_is_slower_than_those_of_its_model(clock, expected):
    table = gpus(1200, each=4, util=95, clock_sm=[1700, 1710, clock, 1690], throttle_reasons=CAP)
    issues = found(ThermalThrottling(), job=job(*["A"] * 4), samples=table)
    assert codes(issues) == ([("slower", expected)] if expected else [])
    if expected:
        assert issues[0].device == "gpu2"
        assert issues[0].evidence["power_cap_pct"] == 100


def test_another_model_may_run_slower():
    table = gpus(1200, each=3, util=95, clock_sm=[1700, 1710, 1200], throttle_reasons=0)
    assert found(ThermalThrottling(), job=job("A", "A", "B"), samples=table) == []


def test_heat_close_to_the_limit_for_a_minute():
    table = gpus(1200, util=95, clock_sm=1700, throttle_reasons=0, temp=90, temp_slowdown=92, mem_temp=80)
    assert codes(found(ThermalThrottling(), samples=table)) == [("hot", "warning")]
    short = np.where(np.arange(1200) > 1180, 91, 70)
    table = gpus(1200, util=95, clock_sm=1700, throttle_reasons=0, temp=short, temp_slowdown=92, mem_temp=97)
    assert codes(found(ThermalThrottling(), samples=table)) == [("hot_memory", "warning")]
