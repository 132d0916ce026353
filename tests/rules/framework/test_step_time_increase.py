"""Tests of the rule StepTimeIncrease."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.rules.tables import SECOND, START, look, severities, steps

from holter.rules import Job, Window
from holter.rules.framework.step_time_increase import StepTimeIncrease
from holter.schema.table import Table


def made(*stretches, seed=0, noise=0.05):
    """Make steps from (number, seconds, shares of the parts)."""
    random = np.random.default_rng(seed)
    tables, first, start = [], 0, START
    for count, seconds, shares in stretches:
        lengths = seconds * np.exp(random.normal(0, noise, count))
        tables.append(steps(lengths, first=first, start=start, **shares))
        first, start = first + count, int(tables[-1]["time"][-1] + tables[-1]["duration"][-1])
    return Table.concat(tables)


def live(table, *, every_s=10, state=None, rule=None):
    """Let the rule look every few seconds; return the issues of the last look."""
    rule, state = rule or StepTimeIncrease(), {} if state is None else state
    ends = table["time"] + table["duration"]
    issues, start = [], START - 1
    job = Job(start=START, first_step=START, warm={0: START})
    for end in [*range(START + every_s * SECOND, int(ends.max()), every_s * SECOND), int(ends.max())]:
        new = table.where((ends > start) & (ends <= end))
        issues = list(
            rule.evaluate(Window.of(rule.lookback, job=job, start=start, end=end, state=state, steps=new))
        )
        state, start = json.loads(json.dumps(state)), end
    return issues, state


FAST, LOADS = {"forward": 1.0}, {"forward": 0.64, "data_loading": 0.36}


@pytest.mark.parametrize("every_s", [2, 10, 60])
def test_it_names_begin_size_and_part(every_s):
    table = made((1000, 0.020, FAST), (1500, 0.031, LOADS))
    (issue,), _ = live(table, every_s=every_s)
    assert issue.severity == "warning"
    assert issue.step_start == pytest.approx(1000, abs=12)
    assert issue.time_start == pytest.approx(int(table["time"][1000]), abs=SECOND // 4)
    assert issue.evidence["before_ms"] == pytest.approx(20, rel=0.02)
    assert issue.evidence["after_ms"] == pytest.approx(31, rel=0.04)
    assert "data loading grew by 11" in issue.summary
    assert issue.evidence["lost_s"] == pytest.approx(16.5, rel=0.1)


def test_it_follows_the_change_long_after_it_began_and_until_it_ends():
    table = made((2000, 0.02, FAST), (30_000, 0.03, LOADS))
    (issue,), state = live(table, every_s=60)
    assert issue.step_start == pytest.approx(2000, abs=12)
    assert len(json.dumps(state)) < 20_000
    over = made((2000, 0.02, FAST), (3000, 0.03, LOADS), (1000, 0.02, FAST))
    assert live(over)[0] == []


def test_short_slow_small_and_explained_changes_are_no_warning():
    assert live(made((5000, 0.02, FAST), noise=0.3))[0] == []
    assert live(made((5000, 0.02, FAST), (300, 0.0204, FAST)))[0] == []
    assert severities(live(made((5000, 0.02, FAST), (200, 0.031, LOADS)))[0]) == ["info"]
    assert live(made((1000, 0.03, LOADS), (3000, 0.02, FAST)))[0] == []
    assert live(made((1000, 0.02, FAST), (60, 0.4, {"eval": 0.95}), (200, 0.02, FAST)))[0] == []


def test_without_steps_it_says_so():
    issues, window = look(StepTimeIncrease(), steps=Table.empty("steps"))
    assert (issues, window.lack.reason) == ([], "no_input")
