"""Breakdown of the step time over the steps of the job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.schema.phases import BREAKDOWN
from holter.views.figure import Axis, Figure, Series
from holter.views.figures._buckets import NO_PHASES, buckets, mean, middles, of_ranks
from holter.views.wording import words

if TYPE_CHECKING:
    from holter.views.reading import Reading

MISSING = NO_PHASES


def draw(reading: Reading, *, rank: int | None = None) -> Figure | None:
    """Draw the mean time of each exclusive part, stacked; together they are the step."""
    steps = reading.drawn_steps_of(rank)
    if not steps.rows or "trace" in reading.description:
        return None
    first, last = int(steps["step"].min()), int(steps["step"].max()) + 1
    count = max(1, min(reading.width, last - first))
    bucket = buckets(steps["step"], first, last, count)
    parts = [part for part in BREAKDOWN if steps[part].any()]
    return Figure(
        title="What a step is spent on",
        kind="stacked",
        x=middles(first, last, count),
        x_axis=Axis("step"),
        y_axis=Axis("mean time in a step", "ms"),
        series=[Series(words(part), mean(bucket, steps[part] / 1e6, count), key=part) for part in parts],
        note=of_ranks(reading, rank),
    )
