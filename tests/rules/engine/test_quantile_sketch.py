"""Quantiles of readings of any size, in bounded memory."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from holter.rules.engine.quantile_sketch import ERROR, add, histogram, quantile


@pytest.mark.parametrize("largest", [1e-9, 1.0, 97.5, 1e12, 1e300, sys.float_info.max])
def test_quantiles_are_near_up_to_the_largest_number(largest: float) -> None:
    sketch = {}
    add(sketch, np.array([0.0, largest / 2, largest, largest]))
    assert quantile(sketch, 1.0) == pytest.approx(largest, rel=1.01 * ERROR, abs=0.01)
    assert quantile(sketch, 0.0) == 0.0
    assert sum(histogram(sketch)) == 4
