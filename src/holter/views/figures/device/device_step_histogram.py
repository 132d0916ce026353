"""Histogram of the steps' durations on the accelerators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.device.steps import device_step_times
from holter.views.document.profiled import HOW
from holter.views.figures._histogram import histogram
from holter.views.figures.device._shares import profiled

if TYPE_CHECKING:
    from holter.views.figure import Figure
    from holter.views.reading import Reading

MISSING = f"No step with kernels was recorded. {HOW}"


def draw(reading: Reading, *, rank: int | None = None, device: int | None = None) -> Figure | None:
    """Draw steps from the begin of the first kernel launched in one to the end of the last."""
    found = device_step_times(profiled(reading, rank, device))
    found = found.where(found["works"] > 0)
    return histogram(
        "Step times on GPUs", found["device_duration"] / 1e6, "steps",
        note="From the begin of the first kernel that a step launched to the end of the last.",
    )  # fmt: skip
