"""Holds the tiles of a timeline as arrays by level; small levels stay in memory after the first query."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.timeline.tiles import width
from holter.views.timeline.reading import wanted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from holter.views.timeline.reading import Arrays, EventTables, Lane

MOST_ROWS = 8_000_000
"""So many rows are kept in memory, of 40 bytes each; levels beyond are read from the files each time."""

COLUMNS = ("lane", "time", "duration", "depth", "name", "count", "busy")
_WIDTHS = (np.int32, np.int64, np.int64, np.int16, np.int32, np.int32, np.int64)


class Levels:
    """The tiles of a job's lanes."""

    def __init__(self, reading: EventTables, lanes: Sequence[Lane], top: int) -> None:
        self.top = top
        """The coarsest level."""
        self._reading = reading
        self._lanes = wanted(lanes)
        self._loaded: dict[int, Arrays] = {}
        self._lock = threading.Lock()
        counted = reading.ask("SELECT level, count(*) AS n FROM tiles WHERE level >= 0 GROUP BY level")
        rows = dict(zip(counted["level"].tolist(), counted["n"].tolist(), strict=True))
        sums = np.cumsum([rows.get(level, 0) for level in range(top, -1, -1)]).tolist()
        self._finest_kept = top + 1 - int(np.searchsorted(sums, MOST_ROWS, side="right"))

    def warm(self) -> None:
        """Load all levels that fit into memory, so that no later question waits for them."""
        for level in range(self.top, self._finest_kept - 1, -1):
            self._of(level, 0, 0)

    def merged(self, level: int, start_ns: int, end_ns: int) -> Arrays:
        """Return the merged rows of a level that reach into a range, of all lanes."""
        return self._seen(level, start_ns, end_ns, kept=False)

    def kept(self, level: int, start_ns: int, end_ns: int) -> list[Arrays]:
        """Return, for a level and each coarser one, the events kept as rows of it that reach into a range."""
        return [self._seen(at, start_ns, end_ns, kept=True) for at in range(level, self.top + 1)]

    def _seen(self, level: int, start_ns: int, end_ns: int, *, kept: bool) -> Arrays:
        # An event of a level is shorter than a block of the next, and merged ones than two of their own; only
        # of the coarsest level they may have any length.
        reach = 1 << 62 if level == self.top and kept else width(level + 1)
        rows = self._of(level, start_ns - reach, end_ns)
        first, last = np.searchsorted(rows["time"], [start_ns - reach, end_ns])
        part = {name: column[first:last] for name, column in rows.items()}
        alone = (part["count"] == 1) & (part["duration"] >= width(level))
        ends = part["time"] + np.maximum(part["duration"], 1)
        chosen = np.flatnonzero((alone == kept) & (ends > start_ns))
        return {name: column[chosen] for name, column in part.items()}

    def _of(self, level: int, start_ns: int, end_ns: int) -> Arrays:
        """Return the rows of a level, in the order of time; at least those of the range."""
        if level < self._finest_kept:
            return self._read(f"level = {level} AND time >= {start_ns} AND time < {end_ns}")
        found = self._loaded.get(level)
        if found is not None:
            return found  # without waiting for another level that is being loaded
        with self._lock:
            if level not in self._loaded:
                self._loaded[level] = self._read(f"level = {level}")
            return self._loaded[level]

    def _read(self, where: str) -> Arrays:
        found = self._reading.ask(
            "SELECT lane, time, duration, depth, enum_code(name::name_codes) AS name, count, busy "  # noqa: S608
            "FROM tiles JOIN wanted ON lane_kind = kind AND lane_node = node AND lane_rank = rank "
            f"AND lane_device = device AND lane_track = track WHERE {where}",
            wanted=self._lanes,
        )
        sequence: NDArray[np.int64] = np.argsort(found["time"], kind="stable")
        return {
            name: found[name].astype(dtype)[sequence] for name, dtype in zip(COLUMNS, _WIDTHS, strict=True)
        }
