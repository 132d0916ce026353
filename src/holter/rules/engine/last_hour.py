"""Sums over the last hour in bounded memory: bins of five minutes, as JSON can hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

BIN_NS = 300_000_000_000
KEPT = 12

Bins = dict[str, dict[str, int]]
"""Number of the bin → name → sum. The sums are integers, so the order of additions does not change them."""


def add(bins: Bins, time: NDArray[np.int64], **values: NDArray[np.int64]) -> None:
    """Add values to the bins of their times.

    Args:
        bins: The bins, which are changed in place.
        time: The time of each value, ns since the epoch; shape (n,).
        values: Name → whole numbers, shape (n,).
    """
    if not len(time):
        return
    numbers, where = np.unique(time // BIN_NS, return_inverse=True)
    for name, column in values.items():
        sums = np.zeros(len(numbers), dtype=np.int64)
        np.add.at(sums, where, column.astype(np.int64))
        for number, total in zip(numbers.tolist(), sums.tolist(), strict=True):
            bin_ = bins.setdefault(str(number), {})
            bin_[name] = bin_.get(name, 0) + total


def totals(bins: Bins, end: int) -> dict[str, int]:
    """Return the sums of the hour before `end`, and remove older bins."""
    oldest = end // BIN_NS - KEPT
    for number in [number for number in bins if int(number) <= oldest]:
        del bins[number]
    found: dict[str, int] = {}
    for bin_ in bins.values():
        for name, value in bin_.items():
            found[name] = found.get(name, 0) + value
    return found
