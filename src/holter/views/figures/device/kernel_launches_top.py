"""Launches of the most frequent kernels, as shares of one another."""

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
    """Draw the kernels that are launched most, without the rest."""
    return kernels(reading, "launches", most=most, rest=False, rank=rank, device=device)
