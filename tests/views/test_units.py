"""Times are written in the unit that fits them."""

from __future__ import annotations

import numpy as np
import pytest

from holter.views.figures._histogram import fitting, histogram
from holter.views.wording import milliseconds


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (0.0, "0 ms"),
        (5e-5, "50 ns"),
        (0.0309, "30.9 µs"),
        (0.1, "0.1 ms"),
        (412.3, "412 ms"),
        (1240.0, "1.24 s"),
    ],
)
def test_a_time_has_three_digits_and_a_unit_that_fits(ms, said):
    assert milliseconds(ms) == said


@pytest.mark.parametrize(("ms", "unit", "factor"), [(0.03, "µs", 1e3), (5e-5, "ns", 1e6), (412.3, "ms", 1)])
def test_a_histogram_has_a_unit_that_fits(ms, unit, factor):
    values = np.array([0.99, 1.0, 1.01]) * ms
    assert fitting(values)[1] == unit
    drawn = histogram("Times", values, "steps")
    assert drawn.x_axis.unit == unit
    assert (drawn.x[0], drawn.x[-1]) == pytest.approx((0.99 * ms * factor, 1.01 * ms * factor))
    assert f"median {factor * ms:.3g} {unit}" in drawn.note
