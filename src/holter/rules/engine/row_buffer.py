"""Rows in the order in which they are due: added to at one end, forgotten at the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_ROWS = 100_000
"""Rows of one table that are kept at most, however far a rule wants to look back: many steps a second would
make ten minutes of them hundreds of megabytes."""


class RowBuffer:
    """Columns ordered by `due`; new ones wait in chunks until somebody looks."""

    def __init__(self) -> None:
        self._due: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._columns: dict[str, NDArray[Any]] = {}
        self._chunks: list[tuple[NDArray[np.int64], dict[str, NDArray[Any]]]] = []
        self._ranks: NDArray[Any] | None = None
        """The ranks among the rows; worked out when they are asked for."""
        self._after = 0
        """Rows after the last forgetting; forgetting copies, so it waits until it is worth it."""

    @property
    def due(self) -> NDArray[np.int64]:
        """When each row is due, in order."""
        if self._chunks:
            self._settle()
        return self._due

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """The rows, in the order in which they are due."""
        if self._chunks:
            self._settle()
        return self._columns

    def add(self, due: NDArray[np.int64], columns: dict[str, NDArray[Any]]) -> None:
        """Take rows in; columns are named alike each time."""
        self._chunks.append((due, columns))

    def range(self, since: int | None, until: int, last: int | None = None) -> tuple[int, int]:
        """Return the rows due after `since` up to `until`, or the last so many up to it, as indices."""
        due = self.due
        high = int(due.searchsorted(until, side="right"))
        if last is not None:
            return max(0, high - last), high
        return 0 if since is None else int(due.searchsorted(since, side="right")), high

    def shares(self, other: RowBuffer) -> bool:
        """Tell whether all rows are due when those of another are; then the two hold one array."""
        mine, its = self.due, other.due
        if mine is its:
            return True
        if len(mine) != len(its) or not len(mine) or mine[-1] != its[-1] or not np.array_equal(mine, its):
            return False
        self._due = its
        return True

    def tail(self, high: int, last: int) -> tuple[int, bool]:
        """Return from where on the last so many rows of each rank are, of those before `high`; if only they.

        Otherwise others may be among them.
        """
        ranks = self.columns["rank"][:high]
        if self._ranks is None:
            self._ranks = np.unique(self.columns["rank"])
        # Ranks go on in step, so their share is enough mostly, and twice it but for one that has stopped.
        for shares in (1, 2):
            low = high - shares * last * max(len(self._ranks), 1)
            if low <= 0:
                break
            counts = np.bincount(np.searchsorted(self._ranks, ranks[low:]), minlength=len(self._ranks))
            if counts.min() >= last:
                return low, shares == 1
        return 0, False

    def forget(self, until: int, since: int, last: int | None) -> None:
        """Drop rows due up to `since`, but for the last so many of those due up to `until`."""
        low, past = self.range(since, until)
        if last is not None:
            low = min(low, max(0, past - last))
        low = max(low, past - MAX_ROWS)
        if low > len(self._due) // 4:
            self._cut(np.arange(low, len(self._due)))

    def forget_steps(self, until: int, since: int, last: int) -> None:
        """The same, with the last so many of each rank."""
        ranks = self.columns.get("rank")
        if ranks is None or len(ranks) < self._after + self._after // 4 + 256:
            return
        past = int(self._due.searchsorted(until, side="right"))
        keep = self._due > since
        keep[:past] |= last_of(ranks[:past], last)
        keep[: max(0, past - MAX_ROWS)] = False
        self._cut(np.flatnonzero(keep))

    def _cut(self, keep: NDArray[np.int64]) -> None:
        # A copy: a view would keep alive what is to be forgotten.
        self._due = self._due[keep]
        self._columns = {name: column[keep] for name, column in self._columns.items()}
        self._after = len(self._due)
        self._ranks = None

    def _settle(self) -> None:
        if not self._columns:
            self._columns = {name: column[:0] for name, column in self._chunks[0][1].items()}
        due = np.concatenate([self._due, *(d for d, _ in self._chunks)])
        columns = {
            name: np.concatenate([column, *(c[name] for _, c in self._chunks)])
            for name, column in self._columns.items()
        }
        back = np.flatnonzero(due[1:] < due[:-1])
        if len(back):
            # Mostly few rows come late: what is due before the first of them stays where it is.
            first = due[: back[0] + 1].searchsorted(due[back[0] + 1 :].min(), side="right")
            order = np.argsort(due[first:], kind="stable")
            for column in (due, *columns.values()):
                column[first:] = column[first:][order]
        self._due, self._columns, self._ranks = due, columns, None
        self._chunks.clear()


def last_of(ranks: NDArray[Any], last: int) -> NDArray[np.bool_]:
    """Tell which entries are among the last so many of their rank; the ranks stand in the order of time."""
    if not len(ranks):
        return np.zeros(0, dtype=bool)
    codes = ranks - ranks.min()
    if int(codes.max()) >= 2**15:
        codes = np.unique(ranks, return_inverse=True)[1]
    codes = codes.astype(np.int16)  # small numbers are sorted in one pass
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes))[codes[order]]
    keep = np.zeros(len(ranks), dtype=bool)
    keep[order] = ends - np.arange(len(ranks)) <= last
    return keep
