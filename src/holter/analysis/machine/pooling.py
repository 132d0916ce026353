"""Downsamples readings over time: minimum, mean and maximum of each interval. Gaps stay gaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Pooled:
    """Readings of each row in each interval; arrays of shape (rows, intervals)."""

    low: NDArray[np.float32]
    """The least; NaN without any."""
    high: NDArray[np.float32]
    """The greatest; NaN without any."""
    total: NDArray[np.float64]
    """Their sum."""
    count: NDArray[np.int32]
    """How many."""

    @property
    def mean(self) -> NDArray[np.float32]:
        """The mean; NaN without any."""
        with np.errstate(invalid="ignore", divide="ignore"):
            found: NDArray[np.float32] = (self.total / self.count).astype(np.float32)
        return found

    @classmethod
    def empty(cls, rows: int, stretches: int) -> Pooled:
        """Return nothing but gaps."""
        shape = (rows, stretches)
        gap = np.full(shape, np.nan, np.float32)
        return cls(gap, gap.copy(), np.zeros(shape), np.zeros(shape, np.int32))

    def between(self, first: int, last: int) -> Pooled:
        """Keep some stretches."""
        return Pooled(*(getattr(self, field)[:, first:last] for field in self.__slots__))


def held(cells: Pooled, reach: int) -> Pooled:
    """Give the readings of a stretch to up to `reach` empty ones before it: they are about that time."""
    count = cells.count.shape[1]
    place = np.where(cells.count > 0, np.arange(count), 2 * count + reach)
    following = np.minimum.accumulate(place[:, ::-1], axis=1)[:, ::-1]
    near = following - np.arange(count) <= reach
    source = np.where(near, following, np.arange(count))
    return Pooled(*(np.take_along_axis(getattr(cells, f), source, axis=1) for f in Pooled.__slots__))


def pooled(fine: Pooled, edges: NDArray[np.int64]) -> Pooled:
    """Join stretches that lie side by side.

    Args:
        fine: What to join.
        edges: Where each new stretch begins, as a number of a stretch, and where the last one ends; not
            decreasing. A new stretch without any is a gap.
    """
    some = np.flatnonzero(np.diff(edges) > 0)
    coarse = Pooled.empty(len(fine.count), len(edges) - 1)
    if len(some):
        inside = fine.between(0, int(edges[-1]))
        at = edges[:-1][some]
        coarse.low[:, some] = np.fmin.reduceat(inside.low, at, axis=1)
        coarse.high[:, some] = np.fmax.reduceat(inside.high, at, axis=1)
        coarse.total[:, some] = np.add.reduceat(inside.total, at, axis=1)
        coarse.count[:, some] = np.add.reduceat(inside.count, at, axis=1)
    return coarse
