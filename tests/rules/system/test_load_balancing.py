"""Tests of the rule LoadBalancing."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.rules.tables import SECOND, START, found, look, samples

from holter.rules import Job, Window
from holter.rules.system.load_balancing import LoadBalancing, distance


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [([1, 1], [1, 1], 0.0), ([1, 0], [0, 1], 0.8326), ([1, 1], [1, 0], 0.4645), ([3, 1], [1, 3], 0.3617)],
)
def test_p10_distances(first, second, expected):
    assert distance(first, second) == pytest.approx(expected, abs=1e-4)
    assert distance(second, first) == pytest.approx(expected, abs=1e-4)


def two(first, second, more=()):
    series = {("gpu.util", "gpu0"): first, ("gpu.util", "gpu1"): second}
    return samples({key: np.clip(value, 0, 100) for key, value in series.items()} | dict(more))


def test_balance_of_load_is_found_as_it_was_calibrated():
    random = np.random.default_rng(3)
    for mean, expected in ((88, 0.14), (85, 0.34), (80, 0.57)):
        table = two(random.normal(90, 5, 2000), random.normal(mean, 5, 2000))
        issues = found(LoadBalancing.of(defaults="classic"), samples=table)
        assert bool(issues) == (expected > 0.2)
        if issues:
            assert issues[0].evidence["distance"] == pytest.approx(expected, abs=0.06)
    fully = two(np.full(1001, 100.0), np.full(1001, 20.0))
    assert found(LoadBalancing.of(defaults="classic"), samples=fully)


def test_five_points_are_no_imbalance_and_forty_are():
    random = np.random.default_rng(4)
    assert found(LoadBalancing(), samples=two(random.normal(90, 4, 1300), random.normal(84, 4, 1300))) == []
    (issue,) = found(LoadBalancing(), samples=two(random.normal(90, 4, 1300), random.normal(50, 4, 1300)))
    assert issue.evidence["mean_pct"]["gpu1 of n0"] < 55
    _, window = look(LoadBalancing(), samples=two(np.full(1300, 90.0), np.full(1300, 50.0)))
    assert window.details["distances"] == {"gpu0 of n0": {"gpu1 of n0": 1.0}}
    assert sum(window.details["workloads"]["gpu1 of n0"]) == 1200  # of ten minutes


def test_bursts_in_turn_are_balanced():
    burst = np.tile(np.repeat([95.0, 5.0], 20), 33)
    assert found(LoadBalancing(), samples=two(burst, np.roll(burst, 20))) == []


def test_the_gpu_of_somebody_else_is_not_compared():
    owners = {("gpu.procs", "gpu0"): np.full(1300, 1.0), ("gpu.procs", "gpu1"): np.zeros(1300)}
    table = two(np.full(1300, 90.0), np.full(1300, 30.0), owners)
    issues, window = look(LoadBalancing(), samples=table)
    assert issues == []
    assert window.lack.reason == "no_match"
    job = Job(start=START, first_step=START, warm={0: START + SECOND}, trainers=True)
    issues, window = look(LoadBalancing(), job=job, samples=two(np.full(1300, 90.0), np.full(1300, 30.0)))
    assert issues == []
    assert "more GPUs than ranks" in window.lack.text


def test_classic_balance_adds_up_over_windows():
    rule = LoadBalancing.of(defaults="classic")
    table = two(np.full(1200, 90.0), np.full(1200, 40.0))
    cut, state = START + 300 * SECOND, {}
    first = Window.of(rule.lookback, end=cut, state=state, samples=table)
    assert list(rule.evaluate(first)) == []
    assert first.lack.reason == "patience_not_reached"
    second = Window.of(rule.lookback, start=cut, state=json.loads(json.dumps(first.state)), samples=table)
    assert list(rule.evaluate(second))
