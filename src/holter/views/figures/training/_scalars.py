"""Draws curves of logged numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.steps.trainings import begins, told_apart
from holter.analysis.tensors.shards import joined
from holter.views.figure import Axis, Figure, Series
from holter.views.figures._buckets import buckets, mean, middles, quantiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.schema.table import Table
    from holter.views.reading import Reading

_MOST = 8
_MOST_BROKEN = 300


def curves(title: str, where: str, label: str, *, log: bool = False) -> Callable[[Reading], Figure | None]:
    """Return a chart of the scalars that a condition selects against the step, each name and mode a line.

    Values that are not finite are left out of the means; where they are is marked.
    """
    return lambda reading: _draw(reading, title, where, label, log=log)


def _draw(reading: Reading, title: str, where: str, label: str, *, log: bool) -> Figure | None:
    rows = reading.trial.table("scalars", where=f"({where}) AND step >= 0", **reading.bounds)
    whole = reading.whole or reading
    table = joined(told_apart(rows, begins(whole.steps)))
    if not table.rows:
        return None
    first, last = int(table["step"].min()), int(table["step"].max()) + 1
    # No more stretches than steps that say something: what is logged now and then is a line all the same.
    count = max(1, min(reading.width, len(np.unique(table["step"]))))
    series = []
    for name, mine in _each(table):
        values, bucket = _finite(mine, log=log), buckets(mine["step"], first, last, count)
        low, high = quantiles(bucket, values, count, (0.0, 1.0))
        one = Series(name, mean(bucket, values, count), joined=bool(np.isfinite(values).all()))
        series.append(one if low == high else replace(one, low=low, high=high))
    broken = table["step"][~np.isfinite(table["value"])]
    notes = []
    if any(one.low for one in series):
        notes.append("The line is the mean of the values behind a point, the band holds all of them.")
    if len(broken):
        notes.append(f"{len(broken):,} values that are not finite are marked ✕, not drawn.")
    return Figure(
        title=title,
        kind="lines",
        x=middles(first, last, count),
        x_axis=Axis("step"),
        y_axis=Axis(label, log=log),
        series=series,
        note=" ".join(notes),
        broken=np.unique(broken)[:_MOST_BROKEN].tolist() or None,
    )


def _each(table: Table) -> list[tuple[str, Table]]:
    names = table["name"].astype(str)
    modes = table["mode"].astype(str)
    keys, counts = np.unique(np.char.add(np.char.add(names, "\x1f"), modes), return_counts=True)
    most = keys[np.argsort(-counts, kind="stable")[:_MOST]]
    found = []
    for key in sorted(most.tolist()):
        name, _, mode = key.partition("\x1f")
        mine = table.where((names == name) & (modes == mode))
        found.append((name if mode in ("train", "global") else f"{name} ({mode})", mine))
    return found


def _finite(table: Table, *, log: bool) -> np.ndarray:
    values = table["value"].astype(float)
    return np.where(np.isfinite(values) & ((values > 0) | (not log)), values, np.nan)
