"""Readings made coarser: extremes survive, means are those of the readings, gaps stay gaps."""

from __future__ import annotations

import numpy as np

from holter.analysis.machine.pooling import Pooled, held, pooled


def fine(values):
    values = np.array(values, np.float32)
    known = ~np.isnan(values)
    return Pooled(values, values, np.where(known, values, 0.0).astype(float), known.astype(np.int32))


def test_stretches_are_joined():
    nan = np.nan
    coarse = pooled(fine([[1, 9, nan, 2, nan, nan], [0, 0, 3, 3, 5, 7]]), np.array([0, 2, 4, 6]))
    np.testing.assert_array_equal(coarse.low, [[1, 2, nan], [0, 3, 5]])
    np.testing.assert_array_equal(coarse.high, [[9, 2, nan], [0, 3, 7]])
    np.testing.assert_array_equal(coarse.mean, [[5, 2, nan], [0, 3, 6]])
    assert coarse.count.tolist() == [[2, 1, 0], [2, 2, 2]]


def test_stretches_outside_are_gaps():
    coarse = pooled(fine([[1, 2, 3]]), np.array([0, 0, 2, 3, 3]))
    np.testing.assert_array_equal(coarse.high, [[np.nan, 2, 3, np.nan]])
    assert pooled(fine([[1, 2]]), np.array([0, 0])).count.tolist() == [[0]]
    assert pooled(Pooled.empty(0, 0), np.array([0, 0, 0])).count.shape == (0, 2)


def test_a_mean_of_unequal_parts_counts_readings():
    once = pooled(fine([[1, 1, 1, 9, np.nan, np.nan]]), np.array([0, 3, 6]))
    assert pooled(once, np.array([0, 2])).mean.tolist() == [[3.0]]


def test_a_reading_is_about_the_time_before_it():
    nan = np.nan
    filled = held(fine([[nan, nan, nan, 5, nan, 7, nan]]), 2)
    np.testing.assert_array_equal(filled.mean, [[nan, 5, 5, 5, 7, 7, nan]])
    assert held(Pooled.empty(2, 3), 2).count.sum() == 0
