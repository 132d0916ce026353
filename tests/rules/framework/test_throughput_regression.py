"""Tests of the rule ThroughputRegression."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.rules.overheads import WARM, last
from tests.rules.tables import SECOND, START, found, look, steps

from holter.rules import Window
from holter.rules.framework.throughput_regression import ThroughputRegression
from holter.schema.table import Table


def noisy(seed: int, *stretches: tuple[int, float], noise: float = 0.1) -> np.ndarray:
    """Return step durations in seconds, with noise, from numbers of steps and their seconds."""
    generator = np.random.default_rng(seed)
    return np.concatenate([s * np.exp(generator.normal(0, noise, n)) for n, s in stretches])


def told(name: str, values: np.ndarray, table: Table) -> Table:
    columns = zip(table["time"].tolist(), table["step"].tolist(), values.tolist(), strict=True)
    rows = [{"time": t + 1, "step": s, "rank": 0, "name": name, "value": v} for t, s, v in columns]
    return Table.of("scalars", rows)


# --- ThroughputRegression


@pytest.mark.parametrize(
    ("slower", "severity"), [(1.0, None), (1.07, "info"), (1.15, "warning"), (2.1, "warning")]
)
def test_steps_that_take_longer_than_before(slower, severity):
    table = steps(noisy(26, (1000, 0.3), (800, 0.3 * slower)), forward=1.0)
    issues = found(ThroughputRegression(), job=WARM, steps=table)
    assert [i.severity for i in issues] == ([severity] if severity else [])


def test_tokens_per_second_can_be_critical_and_name_the_part_that_grew():
    fast = steps(noisy(1, (800, 0.3)), forward=0.8, data_loading=0.2)
    start = int((fast["time"] + fast["duration"]).max())
    slow = steps(noisy(2, (800, 0.6)), first=800, start=start, forward=0.4, data_loading=0.6)
    table = Table.concat([fast, slow])
    tokens = told("tokens", np.full(1600, 4096.0), table)
    (issue,) = found(ThroughputRegression(), job=WARM, steps=table, scalars=tokens)
    assert (issue.severity, issue.evidence["unit"]) == ("critical", "tokens")
    assert issue.evidence["drop_pct"] == pytest.approx(50, abs=2)
    assert next(iter(issue.evidence["grown_ms_per_unit"])) == "data_loading"


def test_longer_sequences_take_longer_and_are_no_regression():
    table = steps(noisy(3, (800, 0.3), (800, 0.6)))
    tokens = told("tokens", np.repeat([2048.0, 4096.0], 800), table)
    assert found(ThroughputRegression(), job=WARM, steps=table, scalars=tokens) == []


def test_no_healthy_job_has_become_slower():
    rule = ThroughputRegression()
    for seed in range(20):
        assert found(rule, job=WARM, steps=steps(noisy(seed, (4000, 0.2), noise=0.2))) == []


def test_a_slow_first_epoch_a_short_burst_and_a_short_job_are_no_regression():
    rule = ThroughputRegression()
    assert found(rule, job=WARM, steps=steps(noisy(4, (1000, 0.5), (3000, 0.2)))) == []
    assert found(rule, job=WARM, steps=steps(noisy(5, (600, 0.3), (150, 0.1), (1000, 0.3)))) == []
    assert found(rule, job=WARM, steps=steps(noisy(6, (1000, 0.3), (120, 0.9), (600, 0.3)))) == []
    issues, window = look(rule, job=WARM, steps=steps([0.0001] * 5000 + [0.0003] * 5000))
    assert issues == []
    assert window.lack.reason == "too_few_points"


def test_a_baseline_is_compared_with():
    table = steps(noisy(7, (800, 0.5)))
    (issue,) = found(ThroughputRegression(baseline=2.5), job=WARM, steps=table)
    assert issue.severity == "warning"
    assert found(ThroughputRegression(baseline=1.5), job=WARM, steps=table) == []


def test_speed_does_not_depend_on_how_windows_are_cut():
    table = steps(noisy(8, (1000, 0.05), (2000, 0.11)))
    tables = {"steps": Table.concat([table]), "scalars": told("samples", np.full(3000, 32.0), table)}
    rule = ThroughputRegression()
    assert last(rule, tables, 1) == last(rule, tables, 7) == last(rule, tables, 50)
    assert last(rule, tables, 1)


def test_state_stays_small():
    state: dict = {}
    rule = ThroughputRegression()
    for i in range(5):
        at = START + i * 3000 * SECOND
        table = steps(noisy(i, (10_000, 0.3)), first=i * 10_000, start=at)
        window = Window.of(job=WARM, state=state, steps=table)
        list(rule.evaluate(window))
    assert len(json.dumps(state)) < 40_000
