"""Step times compared: the interval is honest, steps of ranks and attempts are told apart."""

from __future__ import annotations

import numpy as np
import pytest

from holter.analysis.jobs.comparison import FEWEST, judge, parts_ms, step_change, step_times
from holter.analysis.steps.durations import epoch_s
from holter.schema.phases import BREAKDOWN
from holter.schema.table import Table


def steps(durations, rank=0, first=0, start=0):
    count = len(durations)
    duration = np.array(durations, np.int64)
    columns = {part: np.zeros(count, np.int64) for part in BREAKDOWN}
    columns["forward"] = duration.copy()
    return Table(
        {
            "time": start + np.cumsum(duration) - duration,
            "duration": duration,
            "rank": np.full(count, rank, np.int32),
            "step": np.arange(first, first + count, dtype=np.int32),
            "mode": np.full(count, "train", object),
            "compile": np.zeros(count, np.int64),
            **columns,
        }
    )


def test_step_times_are_the_mean_of_the_ranks_that_step_together():
    table = Table.concat([steps([10_000_000] * 40, 0), steps([30_000_000] * 40, 1)])
    assert step_times(table) == pytest.approx(np.full(39, 20.0))  # the first step of an attempt is warm-up


def test_a_step_that_comes_again_in_another_attempt_is_another_step():
    table = Table.concat([steps([10_000_000] * 30), steps([20_000_000] * 30, start=10**12)])
    assert len(step_times(table)) == 58
    assert set(np.round(step_times(table))) == {10.0, 20.0}


def test_no_steps_no_times():
    assert len(step_times(steps([]))) == 0
    assert parts_ms(steps([])) == {}
    assert step_change(np.ones(FEWEST - 1), np.ones(100)) is None


@pytest.mark.parametrize("statistic", ["median", "mean"])
def test_the_interval_holds_the_truth_as_often_as_it_says(statistic):
    random = np.random.default_rng(5)
    held = 0
    for _ in range(60):
        # Neighbors resemble one another, as those of real trainings do.
        before, after = (
            level + np.convolve(random.normal(0, 1, 430), np.ones(5) / 5, "valid")[:400] for level in (20, 21)
        )
        change = step_change(before, after, statistic)
        held += change.low <= 1.05 <= change.high
    assert held >= 48  # of 95 %; fewer than 48 of 60 would come by chance once in 10^5 times at 92 %


def test_the_mean_counts_rare_long_steps_and_the_median_does_not():
    before, after = np.full(400, 10.0), np.full(400, 10.0)
    after[::50] = 100.0
    assert step_change(before, after, "median").ratio == 1
    assert step_change(before, after, "mean").low > 1.05


def test_many_steps_are_compared_as_fast():
    random = np.random.default_rng(1)
    before, after = random.normal(10, 1, 300_000), random.normal(10.2, 1, 300_001)
    change = step_change(before, after)
    assert change.low < 1.02 < change.high
    assert change.certain
    assert change.steps == (300_000, 300_001)


@pytest.mark.parametrize(
    ("low", "high", "told"),
    [
        (1.06, 1.08, "regression"),
        (0.9, 1.05, "pass"),
        (1.04, 1.06, "inconclusive"),
        (1.051, 1.9, "regression"),
    ],
)
def test_the_gate_says_only_what_the_interval_says(low, high, told):
    assert judge(low, high, 0.05) == told


def loading(*rows):
    return Table(
        {
            "time": np.array([int(row[0] * 1e9) for row in rows], np.int64),
            "name": np.array([row[1] for row in rows], object),
            "value": np.array([row[2] for row in rows], float),
            "rank": np.array([row[3] if len(row) > 3 else 0 for row in rows], np.int32),
        }
    )


def test_an_epoch_is_from_one_start_of_the_main_loader_to_the_next():
    rows = []
    for epoch in range(3):
        rows += [(100 * epoch, "iterator start", 0.0)]
        rows += [(100 * epoch + n, "next batch", 0.0) for n in range(1, 20)]
        rows += [(100 * epoch + 50, "iterator start", 1.0), (100 * epoch + 51, "next batch", 1.0)]
    assert epoch_s(loading(*rows)) == pytest.approx(100)
    assert epoch_s(loading(*rows, (7, "iterator start", 0.0, 1))) == pytest.approx(100)  # another rank
    assert epoch_s(loading(*rows[:21])) is None  # one start says nothing
    assert epoch_s(loading()) is None
