"""Disk throughput over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.views.figure import Axis, Figure
from holter.views.figures.machine._metrics import of_metrics

if TYPE_CHECKING:
    from holter.views.reading import Reading

MISSING = "No samples of disks were taken."


def draw(reading: Reading) -> Figure | None:
    """Draw what was read and written."""
    return of_metrics(
        reading,
        "Disks",
        {"disk.read_bytes": "read", "disk.write_bytes": "written"},
        Axis("rate", "MB/s"),
        scale=1e-6,
    )
