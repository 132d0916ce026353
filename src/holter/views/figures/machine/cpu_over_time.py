"""How busy the processors of each node were, over the whole job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.views.figures.machine._busy import by_node
from holter.views.figures.machine.cpu_active import MISSING

if TYPE_CHECKING:
    from holter.views.figures import Figure, Reading

__all__ = ["MISSING", "draw"]


def draw(reading: Reading) -> Figure | None:
    """Draw the mean over each node's cores, from the start of the job."""
    return by_node(reading, "CPU utilization", ("cpu.util",))
