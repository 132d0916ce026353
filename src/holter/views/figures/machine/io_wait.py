"""I/O wait of the CPU over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.views.figure import Axis, Figure
from holter.views.figures.machine._metrics import of_metrics

if TYPE_CHECKING:
    from holter.views.reading import Reading

MISSING = "No samples of waiting for input and output were taken."


def draw(reading: Reading) -> Figure | None:
    """Draw the share of time in which cores were idle because of it."""
    return of_metrics(
        reading, "Waiting for input and output", {"cpu.iowait": "cores idle"}, Axis("of the time", "%")
    )
