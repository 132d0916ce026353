"""A few metrics of the machine in one chart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.views.figures import Axis, Figure, Reading, Series
from holter.views.figures._buckets import over_time, seconds, spread

if TYPE_CHECKING:
    from collections.abc import Mapping


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
    series = []
    for metric, name in names.items():
        if mine := [row for row in rows if row["series"] == metric]:
            middle, low, high = (spread(mine, what, reading) for what in ("mean", "low", "high"))
            series.append(Series(name, middle, low, high))
    return Figure(
        title=title,
        kind="lines",
        x=seconds(reading),
        x_axis=Axis("time since the start", "s"),
        y_axis=axis,
        series=series,
    )
