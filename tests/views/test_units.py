"""Times are written in the unit that fits them."""

from __future__ import annotations

import numpy as np
import pytest

from holter.views.figures._histogram import fitting, histogram
from holter.views.wording import advice_text, hours_text, milliseconds


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


def test_hours_have_three_digits_also_where_they_are_few():
    assert [hours_text(one) for one in (0.0, 0.00512, 12.5, 1410.2)] == ["0", "0.00512", "12.5", "1,410"]


@pytest.mark.parametrize(
    ("expected", "said"),
    [(None, "Shorten it."), (0.0, "Shorten it."), (12.4, "→ 12.4 ms a step: Shorten it.")],
)
def test_an_advice_promises_a_step_time_only_if_a_step_remains(expected, said):
    assert advice_text({"text": "Shorten it.", "expected_step_ms": expected, "why": ""}) == said
