"""Precisions in which kernels compute, as shares of their time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.device.kernel_statistics import kernel_precision
from holter.views.figure import Axis, Figure, shares
from holter.views.figures.device._shares import NOTHING, profiled

if TYPE_CHECKING:
    from holter.views.reading import Reading

MISSING = NOTHING


def draw(reading: Reading, *, rank: int | None = None, device: int | None = None) -> Figure | None:
    """Draw each precision's share of the time of compute kernels."""
    found = kernel_precision(profiled(reading, rank, device))
    if not found:
        return None
    return shares(
        "Precision of kernels",
        found,
        Axis("time of compute kernels", "%"),
        note="As their names tell; other: the name does not say.",
    )
