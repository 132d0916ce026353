"""Step time over the steps of the job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.views.figure import Axis, Figure, Series
from holter.views.figures._buckets import buckets, middles, quantiles

if TYPE_CHECKING:
    from holter.views.reading import Reading

MISSING = "No steps were seen. Loops that no adapter knows are marked with `with holter.step()`."
_MOST_RANKS = 8


def draw(reading: Reading, *, rank: int | None = None) -> Figure | None:
    """Draw the median step of each stretch, and the range in which all of them lie."""
    steps = reading.drawn_steps_of(rank)
    if not steps.rows:
        return None
    first, last = int(steps["step"].min()), int(steps["step"].max()) + 1
    count = max(1, min(reading.width, last - first))
    ranks = np.unique(steps["rank"]).tolist()
    each = ranks if len(ranks) <= _MOST_RANKS else [None]
    series = []
    for one in each:
        mine = steps if one is None else steps.where(steps["rank"] == one)
        bucket = buckets(mine["step"], first, last, count)
        low, middle, high = quantiles(bucket, mine["duration"] / 1e6, count, (0.0, 0.5, 1.0))
        series.append(Series("all ranks" if one is None else f"rank {one}", middle, low, high))
    return Figure(
        title="Step time",
        kind="lines",
        x=middles(first, last, count),
        x_axis=Axis("step"),
        y_axis=Axis("duration", "ms"),
        series=series,
        note="Median per point; band from the shortest to the longest step.",
    )
