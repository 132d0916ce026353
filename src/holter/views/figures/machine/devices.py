"""Utilization of each core and each GPU over time."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING

from holter.views.figure import Axis, Figure, Series
from holter.views.figures._buckets import over_time, seconds, spread

if TYPE_CHECKING:
    from holter.views.reading import Reading

MISSING = "No samples of single cores or GPUs were taken."
_MOST = 512


def draw(reading: Reading) -> Figure | None:
    """Draw a row for each device, GPUs first."""
    nodes = len(reading.trial.nodes)
    by = "device" if nodes < 2 else "node || ' ' || device"
    rows = over_time(reading, ("cpu.core.util", "gpu.util"), by)
    if not rows:
        return None
    series = [
        Series(name, spread(list(mine), "mean", reading))
        for name, mine in groupby(rows, lambda row: str(row["series"]))
    ]
    series.sort(key=lambda one: _place(one.name))
    left_out = len(series) - _MOST
    return Figure(
        title="Cores and GPUs",
        kind="heatmap",
        x=seconds(reading),
        x_axis=Axis("time since the start", "s"),
        y_axis=Axis("busy", "%", top=100.0),
        series=series[:_MOST],
        note=f"{left_out:,} more devices are not drawn." if left_out > 0 else "",
    )


def _place(name: str) -> tuple[object, ...]:
    parts = [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]
    return ("gpu" not in name, [str(part).zfill(8) for part in parts])
