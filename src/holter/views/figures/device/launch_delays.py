"""Histogram of the delay between the launch of a kernel and its run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.device.launching import launch_delays
from holter.views.document.profiled import HOW
from holter.views.figure import Axis
from holter.views.figures._histogram import histogram, plain
from holter.views.figures.device._shares import profiled

if TYPE_CHECKING:
    from holter.views.figure import Figure
    from holter.views.reading import Reading

MISSING = f"No launches were recorded with the kernels that they started. {HOW}"


def draw(reading: Reading, *, rank: int | None = None, device: int | None = None) -> Figure | None:
    """Draw the time from the end of the launch to the begin of the run, and say which of both is longer."""
    found = launch_delays(profiled(reading, rank, device))
    if not found.rows:
        return None
    longer = 100.0 * float((found["host_ns"] > found["device_ns"]).mean())
    call, run = (float(np.median(found[name])) / 1e3 for name in ("host_ns", "device_ns"))
    return histogram(
        "From launch to run", found["delay_ns"] / 1e3, "kernels and copies", axis=Axis("waits", "µs"),
        note=f"The call of {longer:.0f} % of them takes longer than the run; medians: call {plain(call)} µs, "
        f"run {plain(run)} µs. No wait means that the GPU had nothing to do before it.",
    )  # fmt: skip
