"""Utilization of the cores over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.views.figures.machine._devices import of_devices

if TYPE_CHECKING:
    from holter.views.figure import Figure
    from holter.views.reading import Reading

MISSING = "No samples of single cores were taken."


def draw(reading: Reading) -> Figure | None:
    """Draw the mean of all cores, and the cores that were asked for."""
    return of_devices(reading, "CPU", "cpu.core.util", all_of="all cores")
