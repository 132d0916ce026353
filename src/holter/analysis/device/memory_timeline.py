"""Computes peak and growth of an accelerator's memory over time, from the counters of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holter.schema.table import NameCodes, Table

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
    def peak_time(self) -> int:
        """When it was first reached, ns."""
        return int(self.time[int(np.argmax(self.value))])

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


def memory_timelines(tables: Mapping[str, Table], word: str = "memory") -> list[MemoryTimeline]:
    """Return the counters whose name holds a word, those of the lowest rank first.

    Args:
        tables: `counters`.
        word: What the name holds, in whatever case; the importers call memory so.
    """
    counters = tables.get("counters") or Table.empty("counters")
    names = NameCodes()
    code = names.codes(counters["name"])
    wanted = [i for i, name in enumerate(names) if word.lower() in name.lower()]
    found = []
    for rank in np.unique(counters["rank"]).tolist():
        for i in wanted:
            rows = np.flatnonzero((counters["rank"] == rank) & (code == i))
            if len(rows):
                rows = rows[np.argsort(counters["time"][rows], kind="stable")]
                found.append(
                    MemoryTimeline(
                        rank=int(rank),
                        name=list(names)[i],
                        time=counters["time"][rows].astype(np.int64),
                        value=counters["value"][rows].astype(np.float64),
                    )
                )
    return found
