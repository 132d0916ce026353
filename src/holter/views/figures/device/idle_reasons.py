"""Reasons of the accelerators' idle time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.device.idle_time import idle_time
from holter.views.figure import Axis, Figure, shares
from holter.views.figures.device._shares import NOTHING, profiled

if TYPE_CHECKING:
    from holter.views.reading import Reading

MISSING = NOTHING
_PARTS = {
    "host_wait_ns": "the host had not asked for work",
    "kernel_wait_ns": "between two kernels",
    "other_ns": "another stream or event",
    "unknown_ns": "unknown",
}


def draw(reading: Reading, *, rank: int | None = None, device: int | None = None) -> Figure | None:
    """Draw idle time between the first and the last work by its reason."""
    found = idle_time(profiled(reading, rank, device))
    values = {said: sum(getattr(one, part) for one in found) / 1e9 for part, said in _PARTS.items()}
    known = {said: value for said, value in values.items() if value > 0}
    return shares("Why GPUs idle", known, Axis("idle time", "s")) if known else None
