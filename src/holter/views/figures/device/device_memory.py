"""Memory of accelerators over time, from the counters of a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.device.memory_timeline import memory_timelines
from holter.views.figure import Axis, Figure, Series
from holter.views.figures._buckets import buckets, middles

if TYPE_CHECKING:
    from holter.views.reading import Reading

MISSING = (
    "The trace has no counters of memory; of a recorded job page System shows it. Kineto writes them with "
    "`profile_memory=True`."
)
_MOST = 8


def draw(reading: Reading, *, rank: int | None = None) -> Figure | None:
    """Draw the highest value of each stretch; of more than eight counters those that reach highest."""
    where = None if rank is None else f"rank = {int(rank)}"
    counters = reading.trial.table("counters", where=where, **reading.bounds)
    every = memory_timelines({"counters": counters})
    # Some traces have counters of changes in addition to, or instead of, the memory in use.
    found = [one for one in every if not one.name.endswith("/change")]
    if not found:
        return None
    first, last = min(int(one.time[0]) for one in found), max(int(one.time[-1]) for one in found)
    span = max(last - first, 1)
    several = len({one.rank for one in found}) > 1
    series = []
    for one in sorted(found, key=lambda one: -one.peak)[:_MOST]:
        at = buckets(one.time, first, first + span, reading.width)
        edges = np.flatnonzero(np.diff(at, prepend=-1))
        values: list[float | None] = [None] * reading.width
        # A counter keeps its value until it says another one.
        highest = np.maximum.reduceat(one.value, edges) / 1e9
        for begin, end, value in zip(at[edges], [*at[edges][1:], reading.width], highest, strict=True):
            values[begin:end] = [float(value)] * (end - begin)
        series.append(Series(f"rank {one.rank} {one.name}" if several else one.name, values))
    offset = (first - reading.start) / 1e9
    return Figure(
        title="Memory of accelerators",
        kind="lines",
        x=[offset + at for at in middles(0.0, span / 1e9, reading.width)],
        x_axis=Axis("time since the start", "s"),
        y_axis=Axis("in use", "GB"),
        series=series,
    )
