"""Network throughput over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.views.figure import Axis, Figure
from holter.views.figures.machine._metrics import of_metrics

if TYPE_CHECKING:
    from holter.views.reading import Reading

MISSING = "No samples of the network were taken."


def draw(reading: Reading) -> Figure | None:
    """Draw what was received and sent."""
    return of_metrics(
        reading, "Network", {"net.rx": "received", "net.tx": "sent"}, Axis("rate", "MB/s"), scale=1e-6
    )
