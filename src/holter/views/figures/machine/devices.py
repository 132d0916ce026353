"""Utilization of each core and each GPU over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.views.figure import Axis, Figure
from holter.views.figures._buckets import line, over_time, seconds
from holter.views.figures._outstanding import outstanding
from holter.views.wording import natural

if TYPE_CHECKING:
    from holter.views.reading import Reading

MISSING = "No samples of single cores or GPUs were taken."
_MOST = 512


def draw(reading: Reading) -> Figure | None:
    """Draw a row for each device, GPUs first."""
    by = "device" if len(reading.trial.nodes) < 2 else "node || ' ' || device"
    found = over_time(reading, ["cpu.core.util", "gpu.util"], by)
    if not found:
        return None
    series = [line(reading, *device, banded=False) for device in found.items()]
    series.sort(key=lambda one: ("gpu" not in one.name, natural(one.name)))
    series, rest = outstanding(series, _MOST, "devices")
    return Figure(
        title="Cores and GPUs",
        kind="heatmap",
        x=seconds(reading),
        x_axis=Axis("time since the start", "s"),
        y_axis=Axis("busy", "%", top=100.0),
        series=series,
        note=rest,
    )
