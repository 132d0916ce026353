"""Tests of steady growth, on simulated readings every half second."""

from __future__ import annotations

import numpy as np
import pytest

from holter.analysis.machine.growth import growth

SECOND = 1_000_000_000
COUNTS = (14, 30, 120, 4000)


def times(count):
    return (np.arange(count) * SECOND // 2).astype(np.int64)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("begin", [0.0, 0.5])
def test_growth_and_its_begin_are_found_in_jobs_of_any_length(count, begin):
    x = np.arange(count) / count
    noise = np.random.default_rng(count).normal(0, 1, count)
    found = growth(times(count), 50 + 200 * np.maximum(x - begin, 0) + noise)
    assert found.since / times(count)[-1] == pytest.approx(begin, abs=0.1)
    assert found.per_s == pytest.approx(200 / (count / 2), rel=0.15)
    assert found.after - found.before == pytest.approx(200 * (1 - begin), rel=0.25)


@pytest.mark.parametrize("count", COUNTS)
def test_levels_jumps_and_what_levels_off_do_not_grow(count):
    x = np.arange(count) / count
    for seed in range(15):
        random = np.random.default_rng(seed)
        noise = random.normal(0, 1, count)
        for values in (
            np.full(count, 50.0),
            50 + noise,
            20.0 + random.poisson(5, count),
            50 + 3 * random.standard_t(3, count),
            50 + 30 * (x > 0.6) + noise,
            50 + 20 * np.floor(3 * x),
            50 + 40 * (5 * x % 1),
            1000 * (1 - np.exp(-5 * x)) + 2 * noise,
            50 - 100 * x + noise,
        ):
            assert growth(times(count), values) is None


def test_few_readings_and_gaps_are_not_judged():
    assert growth(times(12), np.arange(12.0)) is None
    moments = times(60)
    moments[30:] += 100 * SECOND
    assert growth(moments, np.arange(60.0)) is None
    assert growth(times(0), np.empty(0)) is None


def test_growth_is_found_although_some_pieces_of_time_have_no_reading():
    moments = times(60)
    read = (np.arange(60) % 20 > 4) | (moments == 0)
    found = growth(moments[read], 50.0 + 2 * np.arange(60)[read])
    assert found.per_s == pytest.approx(4, rel=0.15)
    assert found.since / moments[-1] < 0.1
