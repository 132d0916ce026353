"""Differences of tensors are relative to their size, by elements and by statistics."""

from __future__ import annotations

import numpy as np
import pytest
from tests.tensors.writing import statistics

from holter.analysis.tensors.differences import of_elements, of_statistics, types_of, types_of_numbers
from holter.schema.table import Table


def rows(*arrays, **more):
    """Return table `tensors` of arrays."""
    return Table.of("tensors", [{**statistics(array), **more} for array in arrays]).columns


def bfloat16(array):
    """Round to bfloat16."""
    bits = np.asarray(array, np.float32).view(np.uint32)
    return ((bits + 0x8000) & 0xFFFF0000).view(np.float32)


RANDOM = np.random.default_rng(0).normal(size=1000).astype(np.float32)


def test_statistics_that_are_equal():
    same, apart = of_statistics(rows(RANDOM), rows(RANDOM), np.zeros(1))
    assert same.all()
    assert apart.tolist() == [0.0]


def test_a_difference_of_statistics_is_relative_and_at_most_that_of_the_elements():
    same, apart = of_statistics(rows(1e-9 * RANDOM), rows(1.01e-9 * RANDOM), np.zeros(1))
    assert not same.any()
    assert apart[0] == pytest.approx(0.0099, rel=0.05)
    assert of_elements(1e-9 * RANDOM, 1.01e-9 * RANDOM, 0.0).apart == pytest.approx(0.0099, rel=0.05)


def test_a_small_tensor_is_compared_with_the_size_of_its_module():
    _, apart = of_statistics(rows(1e-9 * RANDOM), rows(-1e-9 * RANDOM), np.array([0.1]))
    assert apart[0] < 1e-7
    assert of_elements(1e-9 * RANDOM, -1e-9 * RANDOM, 0.1).apart < 1e-7


def test_another_fingerprint_is_another_tensor_of_equal_statistics():
    same, apart = of_statistics(rows(RANDOM, fingerprint=1), rows(RANDOM, fingerprint=2), np.zeros(1))
    assert not same.any()
    assert apart.tolist() == [0.0]
    same, _ = of_statistics(rows(RANDOM, fingerprint=1), rows(RANDOM, fingerprint=0), np.zeros(1))
    assert same.all()  # of rows that come often, not all have one


def test_other_shapes_and_nan_are_infinitely_far_apart():
    _, apart = of_statistics(rows(RANDOM), rows(RANDOM[:-1]), np.zeros(1))
    assert np.isinf(apart[0])
    assert of_elements(RANDOM, RANDOM[:-1], 0.0).why == "shape"
    damaged = RANDOM.copy()
    damaged[3] = np.nan
    _, apart = of_statistics(rows(RANDOM), rows(damaged), np.zeros(1))
    assert np.isinf(apart[0])
    assert of_elements(RANDOM, damaged, 0.0).why == "nonfinite"
    assert of_elements(damaged, damaged.copy(), 0.0).same
    moved = damaged[::-1].copy()
    assert of_elements(damaged, moved, 0.0).why == "nonfinite"


def test_whole_numbers_differ_by_a_share():
    assert of_elements(np.arange(4), np.array([0, 1, 2, 9]), 0.0).apart == 0.25
    assert of_elements(np.arange(4), np.arange(4), 0.0).same


def test_extremes_show_the_type():
    half = RANDOM.astype(np.float16).astype(np.float32)
    ones = np.ones(5, np.float32)
    assert types_of(rows(RANDOM, bfloat16(RANDOM), half, ones)).tolist() == [
        "float32", "bfloat16", "float16", "",
    ]  # fmt: skip
    relu = rows(np.maximum(RANDOM, 0), np.maximum(bfloat16(RANDOM), 0))
    assert types_of(relu).tolist() == ["float32", "bfloat16"]
    assert types_of_numbers(np.array([0.123456789, 1.5, 0.0])).tolist() == ["float32", "bfloat16", ""]
