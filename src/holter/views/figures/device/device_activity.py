"""Shares of the accelerators' time: kernels, memory operations, and waits of the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.device.kernel_statistics import activity
from holter.views.figure import Axis, Figure, shares
from holter.views.figures.device._shares import NOTHING, profiled

if TYPE_CHECKING:
    from holter.views.reading import Reading

MISSING = NOTHING
_NAMES = {
    "compute": "kernels that compute",
    "communication": "kernels that communicate",
    "memory": "copies and fills of memory",
    "other": "other",
    "sync": "host waits for the GPU",
}


def draw(reading: Reading, *, rank: int | None = None, device: int | None = None) -> Figure | None:
    """Draw compute, communication, memory and waits as shares of their summed durations."""
    if not reading.profiled.ran:
        return None
    found = activity(profiled(reading, rank, device))
    return shares(
        "GPU activity",
        {_NAMES[name]: share for name, share in found.items()},
        Axis("summed durations", "%"),
        note="Durations are added up, also of what ran at the same time.",
    )
