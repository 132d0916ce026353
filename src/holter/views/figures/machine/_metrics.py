"""Draws samples of the machine over time: a line of means for each series, in a band of all readings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.views.figure import Axis, Figure, Series
from holter.views.figures._buckets import over_time, seconds, spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from holter.views.reading import Reading


def of_metrics(
    reading: Reading, title: str, names: Mapping[str, str], axis: Axis, *, scale: float = 1.0
) -> Figure | None:
    """Draw metrics over time: of several nodes their mean, with the range of all readings.

    Args:
        reading: The job.
        title: What it is called.
        names: Metrics, and what each is called.
        axis: The y axis.
        scale: What readings are multiplied with.
    """
    rows = over_time(reading, tuple(names), "metric")
    if not rows:
        return None
    rows = [{**row, **{what: row[what] * scale for what in ("mean", "low", "high")}} for row in rows]
    named = [(name, [row for row in rows if row["series"] == metric]) for metric, name in names.items()]
    return of_rows(reading, title, [(name, mine) for name, mine in named if mine], axis)


def of_rows(
    reading: Reading,
    title: str,
    named: Iterable[tuple[str, list[dict[str, Any]]]],
    axis: Axis,
    *,
    note: str = "",
) -> Figure:
    """Draw what `over_time` found.

    Args:
        reading: The job.
        title: What it is called.
        named: The name of each series, and its rows.
        axis: The y axis.
        note: What is to be known of it.
    """
    series = []
    for name, rows in named:
        middle, low, high = (spread(rows, what, reading) for what in ("mean", "low", "high"))
        series.append(Series(name, middle, low, high))
    return Figure(
        title=title,
        kind="lines",
        x=seconds(reading),
        x_axis=Axis("time since the start", "s"),
        y_axis=axis,
        series=series,
        note=note,
    )
