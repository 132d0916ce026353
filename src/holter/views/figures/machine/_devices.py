"""Draws one metric of many devices: the mean with its range, and the devices that the reader chose."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from holter.views.figure import Axis, Figure, Series
from holter.views.figures._buckets import over_time, seconds, spread

if TYPE_CHECKING:
    from holter.views.reading import Reading


def of_devices(
    reading: Reading, title: str, metric: str, *, all_of: str, label: str = "busy"
) -> Figure | None:
    """Draw the mean of a metric in percent over all devices, and the devices of the reading.

    Args:
        reading: The job; its `devices` name what is drawn beside the mean.
        title: What it is called.
        metric: Name of the metric, one that each device has.
        all_of: What the mean is of, as `all cores`.
        label: What the y axis shows.
    """
    rows = over_time(reading, (metric,), "metric")
    if not rows:
        return None
    middle, low, high = (spread(rows, what, reading) for what in ("mean", "low", "high"))
    series = [Series(f"mean of {all_of}", middle, low, high)]
    if reading.devices:
        named = ", ".join("'{}'".format(device.replace("'", "''")) for device in reading.devices)
        mine = over_time(reading, (metric,), "device", where=f"device IN ({named})")
        series += [
            Series(name, spread(list(group), "mean", reading))
            for name, group in groupby(mine, lambda row: str(row["series"]))
        ]
    return Figure(
        title=title,
        kind="lines",
        x=seconds(reading),
        x_axis=Axis("time since the start", "s"),
        y_axis=Axis(label, "%", top=100.0),
        series=series,
        note="The band holds every single reading." if len(series) == 1 else "",
    )
