"""Histogram of step durations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.views.figure import Axis, Figure, Series
from holter.views.figures._histogram import fitting
from holter.views.wording import milliseconds

if TYPE_CHECKING:
    from holter.views.reading import Reading

MISSING = "There are no steady steps yet: warm-up and compilation are left out."
_BINS = 60


def draw(reading: Reading, *, rank: int | None = None) -> Figure | None:
    """Draw the histogram of steady steps.

    Cut off where one of a thousand is longer, if that is more than twice the median.
    """
    steps = reading.steps
    times = steps["duration"][reading.drawn_steady(rank)] / 1e6 if steps.rows else np.empty(0)
    if not len(times):
        return None
    longest = float(times.max())
    times, unit = fitting(times)
    most = max(float(np.percentile(times, 99.9)), 2 * float(np.median(times)))
    beyond = int((times > most).sum())
    counts, edges = np.histogram(times[times <= most], bins=min(_BINS, max(5, len(times) // 5)))
    return Figure(
        title="Distribution of step times",
        kind="bars",
        x=edges.tolist(),
        x_axis=Axis("duration", unit),
        y_axis=Axis("steps"),
        series=[Series("steps", [float(count) for count in counts])],
        note=f"Not drawn: {beyond:,} longer, up to {milliseconds(longest)}." if beyond else "",
    )
