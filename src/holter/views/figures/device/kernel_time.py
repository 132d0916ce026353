"""Share of the longest kernels in the time of all kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.views.figures.device._shares import NOTHING, kernels

if TYPE_CHECKING:
    from holter.views.figure import Figure
    from holter.views.reading import Reading

MISSING = NOTHING


def draw(
    reading: Reading, *, most: int | None = None, rank: int | None = None, device: int | None = None
) -> Figure | None:
    """Draw the kernels that take longest, and the rest as one part."""
    return kernels(reading, "time", most=most, rest=True, rank=rank, device=device)
