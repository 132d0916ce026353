"""A buffer of rows in the order of their due times; rows are added at one end and removed at the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_ROWS = 100_000
"""The most rows of one table in a buffer, whatever the lookback of a rule: ten minutes of very short steps
would take hundreds of megabytes."""


class RowBuffer:
    """Columns ordered by `due`; new rows are sorted in when the buffer is read."""

    def __init__(self) -> None:
        self._due: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._columns: dict[str, NDArray[Any]] = {}
        self._chunks: list[tuple[NDArray[np.int64], dict[str, NDArray[Any]]]] = []
        self._after = 0
        """The number of rows after the last removal; a removal copies all rows, so it is rare."""

    @property
    def due(self) -> NDArray[np.int64]:
        """The due time of each row, in order."""
        if self._chunks:
            self._merge_chunks()
        return self._due

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns, in the order of the due times."""
        if self._chunks:
            self._merge_chunks()
        return self._columns

    def add(self, due: NDArray[np.int64], columns: dict[str, NDArray[Any]]) -> None:
        """Add rows; the columns have the same names each time."""
        self._chunks.append((due, columns))

    def range(self, since: int | None, until: int, last: int | None = None) -> tuple[int, int]:
        """Return the rows due after `since` up to `until`, or the `last` ones up to it, as indices."""
        due = self.due
        high = int(due.searchsorted(until, side="right"))
        if last is not None:
            return max(0, high - last), high
        return 0 if since is None else int(due.searchsorted(since, side="right")), high

    def forget(self, until: int, since: int, last: int | None) -> None:
        """Remove rows due up to `since`, except the `last` ones of those due up to `until`."""
        low, past = self.range(since, until)
        if last is not None:
            low = min(low, max(0, past - last))
        low = max(low, past - MAX_ROWS)
        if low > len(self._due) // 4:
            self._cut(np.arange(low, len(self._due)))

    def forget_steps(self, until: int, since: int, last: int) -> None:
        """Remove rows due up to `since`, except the `last` ones of each rank."""
        ranks = self.columns.get("rank")
        if ranks is None or len(ranks) < self._after + self._after // 4 + 256:
            return
        past = int(self._due.searchsorted(until, side="right"))
        keep = self._due > since
        keep[:past] |= last_of(ranks[:past], last)
        keep[: max(0, past - MAX_ROWS)] = False
        self._cut(np.flatnonzero(keep))

    def _cut(self, keep: NDArray[np.int64]) -> None:
        # Indexing copies: a view would keep the removed rows in memory.
        self._due = self._due[keep]
        self._columns = {name: column[keep] for name, column in self._columns.items()}
        self._after = len(self._due)

    def _merge_chunks(self) -> None:
        if not self._columns:
            self._columns = {name: column[:0] for name, column in self._chunks[0][1].items()}
        due = np.concatenate([self._due, *(d for d, _ in self._chunks)])
        columns = {
            name: np.concatenate([column, *(c[name] for _, c in self._chunks)])
            for name, column in self._columns.items()
        }
        back = np.flatnonzero(due[1:] < due[:-1])
        if len(back):
            # Mostly few rows come late: rows due before the first of them keep their place.
            first = due[: back[0] + 1].searchsorted(due[back[0] + 1 :].min(), side="right")
            order = np.argsort(due[first:], kind="stable")
            for column in (due, *columns.values()):
                column[first:] = column[first:][order]
        self._due, self._columns = due, columns
        self._chunks.clear()


def last_of(ranks: NDArray[Any], last: int) -> NDArray[np.bool_]:
    """Return which entries are among the `last` ones of their rank; the ranks are in the order of time."""
    if not len(ranks):
        return np.zeros(0, dtype=bool)
    codes = ranks - ranks.min()
    if int(codes.max()) >= 2**15:
        codes = np.unique(ranks, return_inverse=True)[1]
    codes = codes.astype(np.int16)  # NumPy sorts 16-bit integers in one pass
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes))[codes[order]]
    keep = np.zeros(len(ranks), dtype=bool)
    keep[order] = ends - np.arange(len(ranks)) <= last
    return keep
