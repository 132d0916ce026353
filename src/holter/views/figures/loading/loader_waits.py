"""Time that each step waited for its batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.views.figure import Axis, Figure, Series
from holter.views.figures._buckets import buckets, middles, quantiles

if TYPE_CHECKING:
    from holter.views.reading import Reading

MISSING = "No step waited for a batch, or no steps were seen."


def draw(reading: Reading, *, rank: int | None = None) -> Figure | None:
    """Draw the median of each stretch of steps, the band from the shortest to the longest."""
    steps = reading.drawn_steps_of(rank)
    if not steps.rows or not steps["data_loading"].any():
        return None
    first, last = int(steps["step"].min()), int(steps["step"].max()) + 1
    count = max(1, min(reading.width, last - first))
    bucket = buckets(steps["step"], first, last, count)
    low, middle, high = quantiles(bucket, steps["data_loading"] / 1e6, count, (0.0, 0.5, 1.0))
    return Figure(
        title="Waiting for batches, step by step",
        kind="lines",
        x=middles(first, last, count),
        x_axis=Axis("step"),
        y_axis=Axis("wait in a step", "ms"),
        series=[Series("median", middle, low, high)],
        note="The band holds all steps.",
    )
