"""Histogram of step durations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.views.figures._histogram import histogram

if TYPE_CHECKING:
    from holter.views.figure import Figure
    from holter.views.reading import Reading

MISSING = "There are no steady steps yet: warm-up and compilation are left out."


def draw(reading: Reading, *, rank: int | None = None) -> Figure | None:
    """Draw the histogram of steady steps, see `histogram`."""
    steps = reading.steps
    times = steps["duration"][reading.drawn_steady(rank)] / 1e6 if steps.rows else np.empty(0)
    return histogram("Distribution of step times", times, "steps")
