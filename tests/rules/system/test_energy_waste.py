"""Tests of the rule EnergyWaste."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.tables import SECOND, START, found, look, samples

from holter.rules import Job, Window
from holter.rules.system.energy_waste import EnergyWaste


def energy(idle_share, *, minutes=60, idle_w=100.0, busy_w=100.0, owners=None):
    """One GPU that idles in pieces all over its life; readings every five seconds."""
    count = minutes * 12
    idle = np.random.default_rng(7).permutation(np.arange(count) < idle_share * count)
    series = {
        ("gpu.power", "gpu0"): np.where(idle, idle_w, busy_w),
        ("gpu.util", "gpu0"): np.where(idle, 0.0, 95.0),
    }
    if owners is not None:
        series["gpu.procs", "gpu0"] = np.full(count, float(owners))
    return {"job": Job(start=START, interval_ms=5000), "samples": samples(series, interval_s=5.0)}


@pytest.mark.parametrize(
    ("share", "expected"), [(0.05, []), (0.12, "info"), (0.3, "warning"), (0.6, "critical")]
)
def test_energy_of_idle_gpus(share, expected):
    issues = found(EnergyWaste(), **energy(share))
    assert [issue.severity for issue in issues] == ([expected] if expected else [])
    if expected:
        assert issues[0].evidence["idle_pct_of_energy"] == pytest.approx(100 * share, abs=1)
        assert issues[0].evidence["all_kwh"] == pytest.approx(0.1, rel=0.01)


def test_energy_counts_watts_not_time():
    (issue,) = found(EnergyWaste(), **energy(0.5, idle_w=100.0, busy_w=300.0))
    assert issue.evidence["idle_pct_of_energy"] == pytest.approx(25, abs=1)


def test_energy_of_short_jobs_idle_machines_and_other_people_is_not_judged():
    assert look(EnergyWaste(), **energy(0.6, minutes=20))[1].lack.reason == "run_too_short"
    assert look(EnergyWaste(), **energy(1.0))[1].lack.reason == "no_input"
    assert look(EnergyWaste(), **energy(0.6, owners=0))[1].lack.reason == "no_input"


def test_energy_adds_up_however_the_data_are_split():
    about = energy(0.37)
    (whole,) = found(EnergyWaste(), **about)
    state, cut, issues = {}, START + 1234 * SECOND, []
    for start, end in ((START - 1, cut), (cut, START + 3600 * SECOND)):
        window = Window.of(EnergyWaste().lookback, start=start, end=end, state=state, **about)
        issues = list(EnergyWaste().evaluate(window))
    assert issues[0].evidence == pytest.approx(whole.evidence)
