"""Counts readings by range: idle, in between, or full."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Range = tuple[float, float]

RANGES: tuple[Range, ...] = ((90, 100), (10, 90), (0, 10))
"""Full, in between, idle; percent."""


def in_ranges(values: NDArray[np.float64], ranges: tuple[Range, ...] = RANGES) -> list[int]:
    """Count the values in each range, both ends included. A value counts for the first range that fits.

    Raises:
        ValueError: A range ends before it begins.
    """
    taken = np.zeros(len(values), dtype=bool)
    counts = []
    for low, high in ranges:
        if not low <= high:
            raise ValueError(f"range ({low}, {high}) ends before it begins")
        inside = (values >= low) & (values <= high) & ~taken
        taken |= inside
        counts.append(int(inside.sum()))
    return counts
