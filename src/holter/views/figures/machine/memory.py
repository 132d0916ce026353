"""Memory use of the machine over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.views.figure import Axis, Figure
from holter.views.figures.machine._metrics import of_metrics

if TYPE_CHECKING:
    from holter.views.reading import Reading

MISSING = "No samples of memory were taken."


def draw(reading: Reading) -> Figure | None:
    """Draw the share in use."""
    return of_metrics(reading, "Memory", {"mem.used_pct": "in use"}, Axis("in use", "%", top=100.0))
