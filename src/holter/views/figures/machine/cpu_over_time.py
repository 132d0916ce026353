"""CPU utilization of each node over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.views.figures.machine._samples import NO_CPU, by_node

if TYPE_CHECKING:
    from holter.views.figure import Figure
    from holter.views.reading import Reading

MISSING = NO_CPU


def draw(reading: Reading) -> Figure | None:
    """Draw the mean over each node's cores, from the start of the job."""
    return by_node(reading, "CPU utilization by node", "cpu.util")
