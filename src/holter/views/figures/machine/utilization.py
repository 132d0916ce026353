"""CPU and GPU utilization of the machine over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.views.figure import Axis, Figure, Series
from holter.views.figures._buckets import over_time, seconds, spread

if TYPE_CHECKING:
    from holter.views.reading import Reading

MISSING = "No load of a CPU or GPU was read: the job was not started by `holter run`, or was too short."
_NAMES = {
    "cpu.util": "CPU",
    "cpu.iowait": "CPU waits for input or output",
    "gpu.util": "GPU",
    "gpu.mem.used_pct": "GPU memory in use",
}


def draw(reading: Reading) -> Figure | None:
    """Draw the mean of each metric over all nodes and devices, and the range of single readings."""
    rows = over_time(reading, tuple(_NAMES), "metric")
    if not rows:
        return None
    series = []
    for metric, name in _NAMES.items():
        mine = [row for row in rows if row["series"] == metric]
        if mine:
            middle, low, high = (spread(mine, what, reading) for what in ("mean", "low", "high"))
            series.append(Series(name, middle, low, high))
    return Figure(
        title="The machine",
        kind="lines",
        x=seconds(reading),
        x_axis=Axis("time since the start", "s"),
        y_axis=Axis("busy", "%", top=100.0),
        series=series,
        note="Mean of all nodes and devices; the band holds every single reading.",
    )
