"""Computes peak and growth of an accelerator's memory over time, from the counters of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.grouping import groups
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class MemoryTimeline:
    """One counter of one rank."""

    rank: int
    name: str
    time: NDArray[np.int64]
    value: NDArray[np.float64]
    """The value from each time on."""

    @property
    def peak(self) -> float:
        """The largest value."""
        return float(self.value.max())

    @property
    def growth(self) -> float:
        """The last value less the first."""
        return float(self.value[-1] - self.value[0])

    def sampled(self, points: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return so many points at most: the highest value of each equal stretch of time.

        Raises `ValueError` for less than one.
        """
        if points < 1:
            raise ValueError(f"points is {points}, but must be at least 1")
        if len(self.time) <= points:
            return self.time, self.value
        span = max(int(self.time[-1] - self.time[0]), 1)
        cell = np.minimum((self.time - self.time[0]) * points // span, points - 1)
        first = np.flatnonzero(np.diff(cell, prepend=-1))
        return self.time[first], np.maximum.reduceat(self.value, first)


def memory_timelines(tables: Mapping[str, Table]) -> list[MemoryTimeline]:
    """Return the counters of memory, those of the lowest rank first: importers put `memory` into their names.

    Args:
        tables: `counters`.
    """
    counters = tables.get("counters") or Table.empty("counters")
    found = []
    for (rank, name), rows in groups(counters["rank"], counters["name"]).items():
        if "memory" in name.lower():
            mine = counters.where(rows).sorted("time")
            time, value = mine["time"].astype(np.int64), mine["value"].astype(np.float64)
            found.append(MemoryTimeline(rank=rank, name=name, time=time, value=value))
    return sorted(found, key=lambda one: one.rank)
