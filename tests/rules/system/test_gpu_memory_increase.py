"""Tests of the rule GPUMemoryIncrease."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.rules.tables import SECOND, START, found, samples

from holter.rules import Job, Window
from holter.rules.system.gpu_memory_increase import GPUMemoryIncrease


@pytest.mark.parametrize(("jump", "count"), [(25, 0), (26, 1)])
def test_p8_a_step_of_memory_after_the_published_formula(jump, count):
    rule = GPUMemoryIncrease.of(defaults="classic")
    values = np.concatenate([np.full(1200, 20.0), np.full(300, 20.0 + jump)])
    issues = found(rule, samples=samples({("gpu.mem.busy", "gpu0"): values}))
    assert len(issues) == count
    if issues:
        assert issues[0].evidence["increase_points"] == pytest.approx(5.2)


def test_p9_a_ramp_is_not_seen_by_the_published_formula():
    ramp = np.linspace(20, 90, 7200)
    assert (
        found(GPUMemoryIncrease.of(defaults="classic"), samples=samples({("gpu.mem.busy", "gpu0"): ramp}))
        == []
    )


def test_the_published_formula_gives_the_same_however_the_data_are_split():
    rule = GPUMemoryIncrease.of({"patience": 50}, defaults="classic")
    values = np.random.default_rng(1).normal(40, 20, 400)
    table = samples({("gpu.mem.busy", "gpu0"): values})
    whole = found(rule, samples=table)[0]
    state, parts, cut = {}, [], START + round(93.7 * SECOND)
    for start, end in ((START - 1, cut), (cut, START + 400 * SECOND)):
        window = Window.of(
            rule.lookback, start=start, end=end, state=json.loads(json.dumps(state)), samples=table
        )
        parts += list(rule.evaluate(window))
        state = window.state
    assert sum(issue.count for issue in parts) == whole.count > 1
    most = max(issue.evidence["increase_points"] for issue in parts)
    assert most == pytest.approx(whole.evidence["increase_points"])


def grown(values, rule=None, **more):
    """Evaluate GPUMemoryIncrease every ten seconds."""
    rule = rule or GPUMemoryIncrease()
    table = samples({("gpu.mem.used_pct", "gpu0"): values}, interval_s=1.0)
    state, issues = {}, []
    for end in range(10, len(values) + 1, 10):
        bounds = {"start": START + (end - 10) * SECOND, "end": START + end * SECOND}
        window = Window.of(rule.lookback, job=Job(start=START), state=state, samples=table, **bounds, **more)
        issues += rule.evaluate(window)
    return issues


def test_memory_that_stays_higher_than_it_was_is_found():
    assert grown(np.concatenate([np.full(900, 40.0), np.full(400, 47.0)]))
    assert grown(np.concatenate([np.full(900, 40.0), np.full(400, 44.0)])) == []


def test_an_evaluation_now_and_then_is_no_growth_of_memory():
    values = np.full(3000, 40.0)
    for at in range(800, 3000, 500):
        values[at : at + 90] = 70.0
    assert grown(values) == []
