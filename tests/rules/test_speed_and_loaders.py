"""Rules on how fast training is, and on the processes that load its data."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.rules.overheads import WARM, last
from tests.rules.tables import SECOND, START, found, look, samples, steps

from holter.rules import Window
from holter.rules.framework.dataloader import Dataloader
from holter.rules.framework.loader_worker_imbalance import LoaderWorkerImbalance
from holter.rules.framework.throughput_regression import ThroughputRegression
from holter.rules.patterns.speed import mann_whitney
from holter.schema.table import Table


def noisy(seed: int, *stretches: tuple[int, float], noise: float = 0.1) -> np.ndarray:
    """Return step durations in seconds: so many steps of so many seconds each, with noise."""
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


def test_mann_whitney_agrees_with_tables():
    # All of the 20 lower: z of the normal approximation is -5.396 with the correction for continuity.
    assert mann_whitney(np.arange(20.0), np.arange(20.0) + 100) == pytest.approx(3.4e-8, rel=0.02)
    assert mann_whitney(np.arange(20.0), np.arange(20.0)) == pytest.approx(0.5, abs=0.02)
    assert mann_whitney(np.ones(20), np.ones(20)) == 1.0


# --- LoaderWorkerImbalance


def fetches(per_worker_s: list[float], *, count: int = 40) -> Table:
    rows = [
        {
            "time": START + i * SECOND,
            "duration": round(s * SECOND),
            "rank": 0,
            "worker": w,
            "phase": "fetch",
            "node": "n0",
        }
        for w, s in enumerate(per_worker_s)
        for i in range(count)
    ]
    return Table.of("spans", rows)


def test_a_worker_that_is_slower_than_the_others():
    table = steps([1.0] * 60, data_loading=0.3, forward=0.7)
    (issue,) = found(LoaderWorkerImbalance(), job=WARM, steps=table, spans=fetches([0.2, 0.2, 0.2, 0.9]))
    assert (issue.severity, issue.evidence["worker"]) == ("warning", 3)
    assert found(LoaderWorkerImbalance(), job=WARM, steps=table, spans=fetches([0.2, 0.3, 0.25, 0.2])) == []


def test_a_slow_worker_nobody_waits_for_is_no_news():
    slow = fetches([0.2, 0.2, 0.2, 0.9])
    hidden = steps([1.0] * 60, data_loading=0.001, forward=0.9)
    assert found(LoaderWorkerImbalance(), job=WARM, steps=hidden, spans=slow) == []
    little = steps([1.0] * 60, data_loading=0.02, forward=0.9)
    assert [i.severity for i in found(LoaderWorkerImbalance(), job=WARM, steps=little, spans=slow)] == [
        "info"
    ]


@pytest.mark.parametrize(
    ("spans", "reason"),
    [(fetches([0.1]), "no_match"), (fetches([0.1, 0.9], count=5), "too_few_points"), (None, "no_input")],
)
def test_workers_that_cannot_be_compared(spans, reason):
    given = {"spans": spans} if spans is not None else {}
    issues, window = look(
        LoaderWorkerImbalance(), job=WARM, steps=steps([1.0] * 60, data_loading=0.5), **given
    )
    assert issues == []
    assert window.lack.reason == reason


# --- Dataloader


@pytest.mark.parametrize(("seconds", "fires"), [(11, True), (5, False)])
def test_p14_p15_one_loader_process_on_four_cores(seconds, fires):
    rule = Dataloader.of(defaults="classic")
    issues, window = look(rule, job=WARM, spans=fetches([0.5], count=seconds))
    assert [i.code for i in issues] == (["too_few"] if fires else [])
    assert window.details["dataloaders"] == 1
    if not fires:
        assert (window.lack.reason, window.lack.have, window.lack.need) == ("patience_not_reached", 5, 11)


def test_the_modern_profile_asks_whether_training_waits():
    one = {"spans": fetches([0.5], count=60)}
    rule = Dataloader(min_threshold=50)
    waiting = steps([1.0] * 70, data_loading=0.5, forward=0.5)
    assert [i.code for i in found(rule, job=WARM, steps=waiting, **one)] == ["too_few"]
    assert found(rule, job=WARM, steps=steps([1.0] * 70, forward=1.0), **one) == []


def test_more_processes_than_cores_only_hurt_when_they_queue():
    many = {"spans": fetches([0.9] * 12, count=60)}
    queued = samples({("cpu.load1", ""): [14.0] * 120})
    assert [i.code for i in found(Dataloader(), job=WARM, samples=queued, **many)] == ["too_many"]
    idle = samples({("cpu.load1", ""): [2.0] * 120})
    assert found(Dataloader(), job=WARM, samples=idle, **many) == []
    assert found(Dataloader.of(defaults="classic"), job=WARM, **many)


def test_details_of_the_loader():
    detail = json.dumps({"workers": 1, "pin_memory": True, "prefetch_factor": 2})
    loader = Table.of("events", [{"time": START, "rank": 0, "kind": "loader", "detail": detail}])
    waits = Table.of(
        "spans",
        [
            {"time": START + i * SECOND, "duration": (i + 1) * 10**7, "phase": "data_loading", "node": "n0"}
            for i in range(20)
        ],
    )
    spans = Table.concat([fetches([0.5], count=20), waits])
    _, window = look(Dataloader.of(defaults="classic"), job=WARM, spans=spans, events=loader)
    details = window.details
    assert (details["pin_memory"], details["num_workers"], details["prefetch"]) == (True, 1, 2)
    assert (details["cores"], details["dataloaders"]) == (4, 1)
    assert details["dataloading_time_ms"]["p50"] == pytest.approx(105, rel=0.06)
    assert sum(details["dataloading_time_ms"]["histogram"]) == 20
    assert len(details["dataloading_time_ms"]["histogram"]) == 100
