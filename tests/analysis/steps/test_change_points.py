"""Tests where a series changes its level, on simulated step times."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest

from holter.analysis.steps.change_points import change_points, rises

MILLION = 1_000_000


def anyhow(rise):
    """Return that every early rise counts."""
    return True


def bumped(seed, count=2000):
    """Return Gaussian steps of 20 ms, of which 20 take three deviations longer, and the first of them."""
    random = np.random.default_rng(seed)
    values = 20 + random.normal(0, 1, count)
    at = int(random.integers(300, count - 300))
    values[at : at + 20] += 3
    return values, at


def test_the_onset_of_a_jump_of_three_deviations_for_twenty_steps_is_found_within_two():
    errors, ends = [], []
    for seed in range(200):
        values, at = bumped(seed)
        found = rises(values)
        assert len(found) <= 1
        errors += [abs(one.start - at) for one in found]
        ends += [abs(one.end - at - 20) for one in found]
    assert len(errors) >= 198
    assert np.mean(np.array(errors) <= 2) >= 0.98
    assert np.mean(np.array(ends) <= 2) >= 0.98


def healthy():
    random = np.random.default_rng(1)
    noise = random.normal(0, 1, MILLION)
    yield "gaussian", 20 + noise
    yield "much noise", np.maximum(20 + 4 * noise, 1)
    yield "student", 20 + random.standard_t(3, MILLION)
    yield "cauchy", 20 + np.abs(random.standard_cauchy(MILLION))
    yield "log-normal", 20 * np.exp(0.5 * noise)
    yield "pareto", 20 + random.pareto(1.5, MILLION)
    yield "checkpoints", 20 + noise + np.where(np.arange(MILLION) % 50 == 0, 300, 0)
    yield "every other batch waits", 20 + noise + np.where(np.arange(MILLION) % 2 == 0, 15, 0)
    yield "a third of the steps is slow", 20 + noise + np.where(random.random(MILLION) < 0.3, 15, 0)
    yield "warm-up", 20 + noise + 30 * np.exp(-np.arange(MILLION) / 100)
    yield "slow warm-up", 20 + noise + 10 * np.exp(-np.arange(MILLION) / 20_000)
    yield "neighbors alike", 20 + np.fromiter(accumulate(noise.tolist(), lambda a, b: 0.8 * a + b), float)
    yield "coarse clock", 20 + np.round(0.3 * noise)
    yield "first steps are queued", 20 + noise - np.where(np.arange(MILLION) < 15, 12, 0)
    yield "clock falls", 20 + noise - 2 * np.exp(-np.arange(MILLION) / 50)
    yield "long first steps", 20 + noise + np.where(np.arange(MILLION) < 40, 60, 0)


def test_a_million_healthy_steps_and_short_jobs_of_them_raise_no_alarm():
    random = np.random.default_rng(2)
    for name, values in healthy():
        assert rises(values, early=anyhow) == [], name
        for _ in range(40):
            begins = any(word in name for word in ("warm", "first", "falls"))
            start = 0 if begins else int(random.integers(0, MILLION - 1000))
            count = int(random.integers(10, 1000))
            assert rises(values[start : start + count], early=anyhow) == [], (name, start, count)


@pytest.mark.parametrize(("count", "at"), [(80, 40), (250, 100), (1000, 500), (200_000, 100_000)])
def test_a_change_that_lasts_is_found_in_jobs_of_any_length(count, at):
    values = 20 + np.random.default_rng(count).normal(0, 1, count)
    values[at:] += 11
    (found,) = rises(values)
    assert abs(found.start - at) <= 2
    assert (found.base, found.end) == (0, count)
    assert (found.before, found.after) == (pytest.approx(20, abs=0.3), pytest.approx(31, abs=0.3))


def test_small_changes_need_more_steps():
    values = 20 + np.random.default_rng(3).normal(0, 4, 20_000)
    values[10_000:] += 3  # less than a deviation
    (found,) = rises(values)
    assert found.start == pytest.approx(10_000, abs=20)
    assert rises(values, min_relative=0.5) == []


def test_several_changes_and_constant_series():
    random = np.random.default_rng(4)
    levels = np.concatenate([np.full(500, 20.0), np.full(100, 30.0), np.full(700, 20.0), np.full(300, 25.0)])
    found = rises(levels + random.normal(0, 1, len(levels)))
    assert [abs(one.start - at) <= 2 for one, at in zip(found, (500, 1300), strict=True)] == [True, True]
    assert change_points(np.full(500, 20.0)) == change_points(np.zeros(500)) == []
    assert change_points(levels) == [500, 600, 1300]
    assert rises(np.empty(0)) == rises(np.ones(39)) == []


def test_the_first_batches_that_were_ready_are_no_level_before():
    values = 31 + np.random.default_rng(5).normal(0, 1, 2000)
    values[:40] -= 11
    assert rises(values) == []


@pytest.mark.parametrize("at", [20, 40, 90])
@pytest.mark.parametrize("count", [400, 100_000])
def test_a_change_in_the_first_hundred_steps_is_found_if_it_counts(at, count):
    values = 20 + np.random.default_rng(at).normal(0, 1, count)
    values[at:] += 8
    (found,) = rises(values, early=anyhow)
    assert abs(found.start - at) <= 2
    assert (found.before, found.after) == (pytest.approx(20, abs=0.6), pytest.approx(28, abs=0.3))
    assert rises(values) == []


def test_a_short_fast_start_does_not_hide_a_later_change():
    values = 31 + np.random.default_rng(6).normal(0, 1, 4000)
    values[:30] -= 11
    values[2000:] += 9
    (found,) = rises(values)
    assert abs(found.start - 2000) <= 2
    assert found.before == pytest.approx(31, abs=0.3)


def test_a_short_high_stretch_in_the_first_hundred_steps_is_no_change():
    values = 20 + np.random.default_rng(7).normal(0, 1, 3000)
    values[60:110] += 12
    assert rises(values, early=anyhow) == []
