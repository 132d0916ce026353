"""Histogram of the durations of one annotation, operator, module or step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.device.steps import device_ranges
from holter.store.parquet.queries import literal
from holter.views.figures._histogram import histogram
from holter.views.figures.device._shares import profiled

if TYPE_CHECKING:
    from holter.views.figure import Figure
    from holter.views.reading import Reading

MISSING = (
    "No range of that name was recorded. `with holter.annotate(name):` marks one, "
    "`torch.profiler.record_function` too, within a window of the profiler."
)


def draw(
    reading: Reading, *, annotation: str | None = None, where: str | None = None, rank: int | None = None
) -> Figure | None:
    """Draw durations of the ranges of one name, by default that which took longest.

    With `where="gpu"` the durations are those of the work that the ranges launched.
    """
    if where not in (None, "", "host", "gpu"):
        raise ValueError(f"where is {where!r}; valid: host, gpu")
    annotation = annotation or next(iter(reading.profiled.annotations()), None)
    if annotation is None:
        return None
    tables = profiled(reading, rank if reading.profiled.ranks else None)
    mine = tables["operators"].where(tables["operators"]["name"] == annotation)
    begin = mine["time"].astype(np.int64)
    took = mine["duration"] / 1e6
    if not mine.rows:  # annotations of `holter.annotate` are kept through the whole job
        of_rank = "" if rank is None else f" AND rank = {int(rank)}"
        marked = reading.trial.table(
            "spans",
            columns=("time", "duration", "rank"),
            where=f"phase = 'annotation' AND name = {literal(annotation)}{of_rank}",
            **reading.bounds,
        )
        mine, begin, took = marked, marked["time"].astype(np.int64), marked["duration"] / 1e6
    if where == "gpu":
        found = device_ranges(tables, begin, begin + mine["duration"], mine["rank"])
        took = found["duration"][found["works"] > 0] / 1e6
    return histogram(f"Durations of {annotation}" + (" on GPUs" if where == "gpu" else ""), took, "ranges")
