"""Warm-up, breakdown, durations, outliers, phases, utilization, cost: exact numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.generated.story import story

from holter.analysis.jobs.cost import saving
from holter.analysis.machine.utilization import between, utilization
from holter.analysis.steps.breakdown import breakdown
from holter.analysis.steps.durations import step_statistics
from holter.analysis.steps.outliers import outliers
from holter.analysis.steps.phases import evaluated, job_phases
from holter.analysis.steps.steps import steps
from holter.analysis.steps.warmup import steady
from holter.schema.phases import BREAKDOWN
from holter.schema.table import Table

MS = 1_000_000


def rows(durations, *, rank=0, first=0, start=0, gap=0, **parts):
    """Steps one after another, all `forward` but for what `parts` says (step → ns each)."""
    begin, out = start, []
    for i, duration in enumerate(durations):
        own = {name: values.get(i, 0) for name, values in parts.items()}
        spent = sum(ns for name, ns in own.items() if name != "compile")
        row = {"time": begin, "duration": duration, "rank": rank, "step": first + i, "mode": "train"}
        out.append({**row, "forward": duration - spent, **own})
        begin += duration + gap
    return out


def table(*lists):
    return Table.of("steps", [row for each in lists for row in each])


def test_warm_up_ends_when_steps_settle():
    mask = steady(table(rows([900, 400, 300, 100, 250, *[100] * 45])))
    assert np.flatnonzero(~mask).tolist() == [0, 1, 2, 3, 4]


def test_only_the_first_step_is_warm_up_when_all_are_alike():
    assert np.flatnonzero(~steady(table(rows([100] * 50)))).tolist() == [0]


def test_compile_steps_and_first_steps_of_attempts_are_kept_apart():
    compiled = rows([100] * 30, compile={20: 5})
    resumed = rows([100] * 30, first=10, start=10_000)
    assert np.flatnonzero(~steady(table(compiled, resumed))).tolist() == [0, 20, 30]


def test_a_short_job_keeps_steps():
    assert steady(table(rows([100]))).tolist() == [True]
    assert steady(table(rows([500, 100]))).tolist() == [False, True]
    assert steady(table(rows([500, 400, 300, 100]))).sum() == 2
    all_compiled = table(rows([100] * 6, compile=dict.fromkeys(range(6), 1)))
    assert steady(all_compiled).sum() == 5


def test_each_rank_warms_up_on_its_own():
    mask = steady(table(rows([900, 800, *[100] * 30]), rows([100] * 32, rank=1)))
    assert np.flatnonzero(~mask).tolist() == [0, 1, 32]


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=60), st.integers(0, 50))
def test_half_of_the_steps_stay(durations, gap):
    mask = steady(table(rows(durations, gap=gap)))
    assert mask.sum() >= len(durations) / 2


def test_breakdown_counts_gaps_but_not_missing_steps():
    first = rows([100, 100, 100], data_loading={0: 50, 1: 50, 2: 50}, gap=10)
    later = rows([100], first=7, start=5_000)
    shares = breakdown(table(first, later), np.ones(4, dtype=bool))
    # 400 ns of steps, two gaps of 10; the hole before step 7 is no time of the loop that anybody knows of.
    assert shares["data_loading"] == pytest.approx(100 * 150 / 420)
    assert shares["other"] == pytest.approx(100 * 20 / 420)
    assert sum(shares.values()) == pytest.approx(100)


def test_breakdown_of_nothing_is_nothing():
    assert breakdown(Table.empty("steps")) == {}
    assert step_statistics(Table.empty("steps")) == {}


@pytest.mark.parametrize("name", ["before", "after", "communication", "mixed"])
def test_breakdown_of_the_stories(name):
    from tests.generated.story import SCENARIOS

    shares = breakdown(steps(story(name, samples=10).spans))
    assert shares == pytest.approx({**dict.fromkeys(BREAKDOWN, 0.0), **SCENARIOS[name].shares}, abs=1.0)
    assert sum(shares.values()) == pytest.approx(100, abs=1e-9)


def test_step_statistics():
    durations = [1000 * MS, *[(100 + i % 10) * MS for i in range(100)]]
    found = step_statistics(table(rows(durations), rows(durations, rank=1)))
    assert (found["count"], found["warmup"], found["outliers"]) == (101, 1, 0)
    assert found["mean_ms"] == pytest.approx(104.5)
    assert found["p50_ms"] == pytest.approx(104.5)
    assert found["max_ms"] == pytest.approx(109)
    assert found["per_second"] == pytest.approx(1000 / 104.5)


def test_outliers_are_found_however_many_there_are():
    """A tenth of the steps ten times as long: mean and standard deviation find none."""
    found = outliers(table(rows([100 * MS] * 900 + [1000 * MS] * 100)))
    assert len(found) == 100
    assert {o.step for o in found} == set(range(900, 1000))


def test_a_profile_that_holter_finishes_explains_slow_steps_of_that_time_only():
    recorded = table(rows([100 * MS] * 50 + [300 * MS, 900 * MS] + [100 * MS] * 50))
    slow = int(recorded["time"][50])
    finished = [(0, slow, slow + 400 * MS)]
    assert [one.cause for one in outliers(recorded, windows=finished)] == ["forward", "holter"]
    assert {one.cause for one in outliers(recorded, windows=[(1, slow, slow + 400 * MS)])} == {"forward"}


def test_no_outliers_in_noise():
    durations = (100 * MS * np.exp(np.random.default_rng(0).normal(0, 0.05, 2000))).astype(int)
    assert outliers(table(rows(durations.tolist()))) == []


def test_a_step_must_be_clearly_longer_than_usual():
    assert outliers(table(rows([100 * MS] * 50 + [129 * MS]))) == []
    assert len(outliers(table(rows([100 * MS] * 50 + [131 * MS])))) == 1


def test_an_outlier_says_what_its_time_went_into():
    durations = [100 * MS] * 50
    durations[20], durations[30], durations[40] = 500 * MS, 300 * MS, 900 * MS
    recorded = table(rows(
        durations, data_loading={20: 390 * MS}, checkpoint={30: 200 * MS}, compile={40: 780 * MS},
    ))  # fmt: skip
    begin = int(recorded["time"][30])
    spans = Table.of("spans", [
        {"time": begin + 10 * MS, "duration": 190 * MS, "rank": 0, "phase": "annotation", "name": "save all"},
        {"time": begin + 10 * MS, "duration": 190 * MS, "rank": 1, "phase": "annotation", "name": "other"},
    ])  # fmt: skip
    found = outliers(recorded, spans)
    assert [(o.step, o.cause, round(o.extra_ms)) for o in found] == [
        (40, "compile", 800), (20, "data_loading", 400), (30, "checkpoint", 200),
    ]  # fmt: skip
    assert found[1].extra["data_loading"] == pytest.approx(390)
    assert found[2].during == {"save all": 190}


def test_phases_of_a_job():
    found = job_phases(0, 100 * 10**9, table(rows([10 * 10**9] * 6, start=20 * 10**9)))
    seconds = {key: value for key, value in found.items() if key.endswith("_s")}
    assert seconds == {
        "initialization_s": 20,
        "training_loop_s": 60,
        "evaluation_s": None,
        "finalization_s": 20,
    }
    assert found["training_loop_pct"] == 60
    assert (found["training_loop_start"], found["training_loop_end"]) == (20 * 10**9, 80 * 10**9)


def test_evaluation_after_the_last_step_is_a_phase_of_its_own():
    second = 10**9
    rows_ = [
        {"time": at * second // 10, "duration": second // 20, "rank": 0, "phase": phase, "mode": mode}
        for at, phase, mode in [
            *((810 + 2 * i, "data_loading", "train") for i in range(50)),
            *((811 + 2 * i, "forward", "eval") for i in range(50)),
            (960, "forward", "train"),
            *((980 + i, "forward", "predict") for i in range(5)),
        ]
    ]
    length = evaluated(Table.of("spans", rows_))
    assert length == 10_400_000_000
    found = job_phases(0, 100 * second, table(rows([10 * second] * 6, start=20 * second)), length)
    assert found["evaluation_s"] + found["finalization_s"] == pytest.approx(20)
    assert found["evaluation_s"] == pytest.approx(10.4)


def test_phases_that_nobody_knows_are_absent():
    assert set(job_phases(0, 100, Table.empty("steps")).values()) == {None}
    running = job_phases(0, None, table(rows([10**9])))
    assert running["training_loop_s"] == 1
    assert running["finalization_s"] is None
    assert running["initialization_pct"] is None


def test_a_loop_before_the_start_keeps_its_length_and_has_no_place():
    found = job_phases(90 * 10**9, 100 * 10**9, table(rows([10 * 10**9] * 6)))
    assert found["training_loop_s"] == 60
    assert (found["training_loop_start"], found["training_loop_end"]) == (0, 60 * 10**9)
    assert {value for key, value in found.items() if not key.startswith("training_loop")} == {None}
    assert found["training_loop_pct"] is None


@given(st.integers(-50, 150), st.integers(-50, 500))
def test_phases_never_have_negative_length(start, end):
    found = job_phases(start, end, table(rows([10] * 10)))
    assert all(
        value >= 0 for key, value in found.items() if key.endswith(("_s", "_pct")) and value is not None
    )


def test_utilization_of_the_story():
    rows_ = {(row["metric"], row["device"]): row for row in utilization(story("before", steps=10).samples)}
    gpu = rows_["gpu.util", ""]
    assert gpu["unit"] == "%"
    assert gpu["count"] == 8 * 1700
    assert gpu["p50"] == pytest.approx(41, abs=1)
    assert 50 < gpu["p95"] < 55
    assert gpu["min"] >= 20
    assert rows_["cpu.util", ""]["p50"] == pytest.approx(85, abs=1)
    assert rows_["proc.count", "worker"]["max"] == 32
    assert ("gpu.throttle_reasons", "") not in rows_


def test_utilization_within_a_time():
    samples = Table.of("samples", [
        {"time": t, "node": node, "metric": "cpu.core.util", "device": f"cpu{c}", "value": float(10 * t + c)}
        for t in range(10) for c in range(2) for node in ("a", "b")
    ] + [{"time": 3, "node": "a", "metric": "mem.used", "device": "", "value": math.nan}])  # fmt: skip
    found = utilization(between(samples, 2, 4))
    assert [(r["node"], r["min"], r["max"], r["count"]) for r in found] == [
        ("a", 20, 31, 4),
        ("b", 20, 31, 4),
    ]
    assert len(utilization(samples, by_device=True)) == 4
    assert utilization(Table.empty("samples")) == []


def test_the_worked_case_saves_99_hours():
    found = saving(5.9, 2.6, epochs=30, price=32.77)
    assert (found.hours_before, found.hours_after) == (pytest.approx(177), pytest.approx(78))
    assert found.hours_saved == pytest.approx(99)
    assert found.money_saved == pytest.approx(3244.23)
    assert found.speedup == pytest.approx(2.27, abs=0.005)
    assert found.saved_pct == pytest.approx(55.9, abs=0.05)
    assert not found.costs_extra


def test_a_loss_is_extra_cost():
    found = saving(2.0, 3.0, price=10, nodes=4)
    assert found.costs_extra
    assert found.money_saved == pytest.approx(-40)
    assert saving(2.0, 3.0).money_saved is None


@pytest.mark.parametrize(
    "bad", [{"before_h": -1.0}, {"price": -0.01}, {"epochs": math.nan}, {"nodes": math.inf}]
)
def test_cost_refuses_what_makes_no_sense(bad):
    given_ = {"before_h": 1.0, "after_h": 1.0, **bad}
    with pytest.raises(ValueError, match=next(iter(bad))):
        saving(given_.pop("before_h"), given_.pop("after_h"), **given_)
