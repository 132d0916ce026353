"""Draws curves of logged numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.steps.trainings import begins, told_apart
from holter.analysis.tensors.shards import joined
from holter.analysis.verdict.evidence import counted
from holter.views.figure import Axis, Figure, Series
from holter.views.figures._buckets import buckets, mean, middles, quantiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holter.schema.table import Table
    from holter.views.reading import Reading

_MOST = 8
_MOST_BROKEN = 300
_WIDE = 1e4
"""Values that differ by a larger factor are drawn on a logarithmic axis."""


def curves(title: str, where: str, label: str) -> Callable[..., Figure | None]:
    """Return a chart of the scalars that a condition selects against the step, each name and mode a line.

    Values that are not finite are left out of the means; where they are is marked. Numbers that never change
    are shown as numbers. The axis is logarithmic if the values need it.
    """

    def draw(reading: Reading, *, rank: int | None = None) -> Figure | None:
        mine = where if rank is None else f"({where}) AND rank = {int(rank)}"
        return curve(reading, title, mine, label)

    return draw


def curve(reading: Reading, title: str, where: str, label: str, *, log: bool = False) -> Figure | None:
    """Return one chart, as `curves` says; with `log` its axis is logarithmic in any case."""
    rows = reading.trial.table("scalars", where=f"({where}) AND step >= 0", **reading.bounds)
    whole = reading.whole or reading
    table = joined(told_apart(rows, begins(whole.steps)))
    if not table.rows:
        return None
    first, last = int(table["step"].min()), int(table["step"].max()) + 1
    log = log or is_wide(table["value"])
    if constant := _constants(table):
        return Figure(
            title=title, kind="constants", x=[], x_axis=Axis("step"), y_axis=Axis(label), series=constant
        )
    # No more stretches than steps that say something: what is logged now and then is a line all the same.
    count = max(1, min(reading.width, len(np.unique(table["step"]))))
    series = []
    for name, mine in _each(table):
        values, bucket = _finite(mine, log=log), buckets(mine["step"], first, last, count)
        low, high = quantiles(bucket, values, count, (0.0, 1.0))
        one = Series(name, mean(bucket, values, count), joined=bool(np.isfinite(values).all()))
        series.append(one if low == high else replace(one, low=low, high=high))
    broken = [each for _, mine in _each(table) for each in _broken(mine)]
    lost = int((~np.isfinite(table["value"])).sum())
    notes = []
    if any(one.low for one in series):
        notes.append("Mean per point; band from the least to the greatest value.")
    if lost:
        notes.append(f"{counted(lost, 'value')} not finite: the hatched steps.")
    return Figure(
        title=title,
        kind="lines",
        x=middles(first, last, count),
        x_axis=Axis("step"),
        y_axis=Axis(label, log=log, linear=None if log else _linear(table["value"])),
        series=series,
        note=" ".join(notes),
        broken=_joined(broken) or None,
        flag=_flag(table),
    )


def is_wide(values: np.ndarray) -> bool:
    """Return whether values are positive and so different that a linear axis would hide most of them."""
    known = values[np.isfinite(values)]
    return bool(len(known) and known.min() > 0 and known.max() > _WIDE * known.min())


def _linear(values: np.ndarray) -> float | None:
    """Return up to where a symmetric-logarithmic axis is linear, if values of both signs need one."""
    size = np.abs(values[np.isfinite(values)])
    usual = float(np.median(size)) if len(size) else 0.0
    return usual if usual > 0 and float(size.max()) > _WIDE * usual else None


def _constants(table: Table) -> list[Series]:
    """Return a series with one value for each number, if none of them ever changes."""
    found = []
    for name, mine in _each(table):
        values = mine["value"]
        # One value says little, except of the learning rate, which is recorded when it changes.
        known = len(values) > 1 or name.startswith("lr")
        if not known or not np.isfinite(values).all() or values.min() != values.max():
            return []
        found.append(Series(name, [float(values[0])]))
    return found


def _broken(table: Table) -> Iterator[tuple[float, float]]:
    """Yield the stretches of steps of one number in which no value is finite, begin and end."""
    steps, where = np.unique(table["step"], return_inverse=True)
    bad = np.bincount(where, ~np.isfinite(table["value"]), len(steps)) > 0
    edges = np.flatnonzero(np.diff(np.concatenate([[False], bad, [False]]).astype(np.int8)))
    for first, last in edges.reshape(-1, 2).tolist():
        yield float(steps[first]), float(steps[last - 1]) + 1


def _joined(stretches: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Join stretches that overlap or follow one another; only so many as a chart can show."""
    found: list[tuple[float, float]] = []
    for begin, end in sorted(stretches):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found[:_MOST_BROKEN]


def _flag(table: Table) -> str:
    bad = np.flatnonzero(~np.isfinite(table["value"]))
    if not len(bad):
        return ""
    first = bad[np.argmin(table["step"][bad])]
    what = "NaN" if np.isnan(table["value"][first]) else "infinite"
    after = np.isfinite(table["value"][table["step"] > table["step"][first]]).any()
    return f"{what} {'in' if after else 'from'} step {int(table['step'][first]):,}"


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
