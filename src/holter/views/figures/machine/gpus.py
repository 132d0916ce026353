"""Utilization of the GPUs over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.views.figures.machine._devices import of_devices

if TYPE_CHECKING:
    from holter.views.figure import Figure
    from holter.views.reading import Reading

MISSING = "No GPU was seen. `holter doctor` says what can be measured on this machine, and why not the rest."


def draw(reading: Reading) -> Figure | None:
    """Draw the mean of all GPUs, and the GPUs that were asked for."""
    return of_devices(reading, "GPU", "gpu.util", all_of="all GPUs")
