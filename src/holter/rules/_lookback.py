"""The recent past of a job, as far as any rule looks back: added to at one end, forgotten at the other."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

MAX_ROWS = 500_000
"""Rows of one table that are kept at most, however far a rule wants to look back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookback:
    """How far back a window reaches. What is not given: new rows only."""

    seconds: float | None = None
    """Rows that ended within so many seconds before the window's end."""
    steps: int | None = None
    """Of table `steps`: the last so many of each rank, however long they took."""
    readings: int | None = None
    """Of each series of samples: the last so many."""

    def joined(self, other: Lookback) -> Lookback:
        """Return what holds both."""
        pairs = [
            (self.seconds, other.seconds), (self.steps, other.steps), (self.readings, other.readings)
        ]  # fmt: skip
        far = [max((v for v in pair if v is not None), default=None) for pair in pairs]
        return Lookback(
            seconds=far[0],
            steps=None if far[1] is None else int(far[1]),
            readings=None if far[2] is None else int(far[2]),
        )


class Series(NamedTuple):
    """The readings of one metric of one device, in the order of time; every value is finite."""

    time: NDArray[np.int64]
    value: NDArray[np.float64]


Place = tuple[str, str]
"""Node and device; the device is empty for the whole node."""


class Recent:
    """Samples as series, other tables as rows, both ordered by when they are due.

    A row is due when it ended: a span belongs to the moment it ended in. One that comes after that moment was
    judged is due at the next, so that it counts once, and in the same place whoever reads.
    """

    def __init__(self, keep: Mapping[str, Lookback] | None = None) -> None:
        self._keep = keep
        """What is needed of each `table` or `samples/metric`; nothing is forgotten when it is not given."""
        self._series: dict[str, dict[Place, _Kept]] = defaultdict(dict)
        self._rows: dict[str, _Kept] = {}
        self._asked: dict[tuple[Any, ...], Table] = {}
        """What was asked for since the last change: rules that look at one moment ask for the same."""

    def add(self, table: str, rows: Table, judged: int) -> None:
        """Take rows in; `judged` is the moment up to which all was judged before."""
        if not rows.rows:
            return
        self._asked.clear()
        due = rows["time"] if "duration" not in rows else rows["time"] + rows["duration"]
        due = np.maximum(due, judged + 1)
        if table != "samples":
            self._rows.setdefault(table, _Kept(table)).add(due, dict(rows.columns))
            return
        finite = np.isfinite(rows["value"])
        if not finite.all():
            rows, due = rows.where(finite), due[finite]
        for metric, place, where in _groups(rows):
            if self._keep is None or self._needed(metric) is not None:
                kept = self._series[metric].setdefault(place, _Kept("samples"))
                kept.add(due[where], {"time": due[where], "value": rows["value"][where]})

    def series(self, metric: str, since: int, until: int, last: int | None = None) -> dict[Place, Series]:
        """Return a metric's readings after `since` up to `until`, or the last so many up to it."""
        found = {}
        for place, kept in sorted(self._series.get(metric, {}).items()):
            columns = kept.between(since, until, last)
            if len(columns["time"]):
                found[place] = Series(columns["time"], columns["value"])
        return found

    def _needed(self, metric: str) -> Lookback | None:
        keep = self._keep or {}
        return keep.get(f"samples/{metric}", keep.get("samples"))

    @property
    def metrics(self) -> list[str]:
        """The metrics that were read."""
        return sorted(self._series)

    def rows(self, table: str, since: int, until: int, last: int | None = None) -> Table:
        """Return a table's rows that were due after `since` up to `until`, or each rank's last so many."""
        kept = self._rows.get(table)
        if kept is None:
            return Table.empty(table)
        question = (table, since if last is None else None, until, last)
        if question not in self._asked:
            if any(asked[2] != until for asked in self._asked):
                self._asked.clear()
            found = Table(kept.between(question[1], until))
            self._asked[question] = found if last is None else last_of_each_rank(found, last)
        return self._asked[question]

    def forget(self, until: int, floor: int) -> None:
        """Drop what no window that ends after `until` will hold; `floor`: rows due after it are still new."""
        if self._keep is None:
            return
        self._asked.clear()
        for metric, places in self._series.items():
            need = self._needed(metric) or Lookback()
            for kept in places.values():
                kept.forget(until, _since(need, until, floor), need.readings)
        for table, kept in self._rows.items():
            need = self._keep.get(table, Lookback())
            if table == "steps" and need.steps is not None:
                kept.forget_steps(until, _since(need, until, floor), need.steps)
            else:
                kept.forget(until, _since(need, until, floor), None)


class _Kept:
    """Columns ordered by `due`; new ones wait in chunks until somebody looks."""

    def __init__(self, table: str) -> None:
        self._due: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._columns: dict[str, NDArray[Any]] = {}
        self._chunks: list[tuple[NDArray[np.int64], dict[str, NDArray[Any]]]] = []
        self._after = 0
        """Rows after the last forgetting; forgetting copies, so it waits until it is worth it."""

    def add(self, due: NDArray[np.int64], columns: dict[str, NDArray[Any]]) -> None:
        self._chunks.append((due, columns))

    def between(self, since: int | None, until: int, last: int | None = None) -> dict[str, NDArray[Any]]:
        self._settle()
        high = int(np.searchsorted(self._due, until, side="right"))
        low = 0 if since is None else int(np.searchsorted(self._due, since, side="right"))
        if last is not None:
            low = max(0, high - last)
        return {name: column[low:high] for name, column in self._columns.items()}

    def forget(self, until: int, since: int, last: int | None) -> None:
        self._settle()
        past = int(np.searchsorted(self._due, until, side="right"))
        low = int(np.searchsorted(self._due, since, side="right"))
        if last is not None:
            low = min(low, max(0, past - last))
        low = max(low, past - MAX_ROWS)
        if low > len(self._due) // 4:
            self._cut(np.arange(low, len(self._due)))

    def forget_steps(self, until: int, since: int, last: int) -> None:
        self._settle()
        ranks = self._columns.get("rank")
        if ranks is None or len(ranks) < 2 * self._after + 256:
            return
        past = int(np.searchsorted(self._due, until, side="right"))
        keep = self._due > since
        keep[:past] |= _last(ranks[:past], last)
        keep[: max(0, past - MAX_ROWS)] = False
        self._cut(np.flatnonzero(keep))

    def _cut(self, keep: NDArray[np.int64]) -> None:
        # A copy: a view would keep alive what is to be forgotten.
        self._due = self._due[keep].copy()
        self._columns = {name: column[keep].copy() for name, column in self._columns.items()}
        self._after = len(self._due)

    def _settle(self) -> None:
        if not self._chunks:
            return
        if not self._columns:
            self._columns = {name: column[:0] for name, column in self._chunks[0][1].items()}
        due = np.concatenate([self._due, *(d for d, _ in self._chunks)])
        columns = {
            name: np.concatenate([column, *(c[name] for _, c in self._chunks)])
            for name, column in self._columns.items()
        }
        if np.any(due[1:] < due[:-1]):
            order = np.argsort(due, kind="stable")
            due, columns = due[order], {name: column[order] for name, column in columns.items()}
        self._due, self._columns = due, columns
        self._chunks.clear()


def last_of_each_rank(steps: Table, last: int) -> Table:
    """Keep the last so many steps of each rank; the rows are in the order of time."""
    return steps if steps.rows <= last else steps.where(_last(steps["rank"], last))


def _last(ranks: NDArray[Any], last: int) -> NDArray[np.bool_]:
    order = np.argsort(ranks, kind="stable")
    ordered = ranks[order]
    ends = np.searchsorted(ordered, ordered, side="right")
    keep = np.zeros(len(ranks), dtype=bool)
    keep[order] = ends - np.arange(len(ranks)) <= last
    return keep


def _since(need: Lookback, until: int, floor: int) -> int:
    return min(floor, until - round((need.seconds or 0.0) * 1e9))


def _groups(rows: Table) -> Iterable[tuple[str, Place, NDArray[np.int64]]]:
    """Split samples by series. Text columns hold few distinct values, so a dictionary beats sorting."""
    codes: dict[tuple[str, str, str], int] = {}
    node = rows["node"].tolist() if "node" in rows else [""] * rows.rows
    keys = zip(rows["metric"].tolist(), node, rows["device"].tolist(), strict=True)
    which = np.fromiter((codes.setdefault(key, len(codes)) for key in keys), dtype=np.int64, count=rows.rows)
    order = np.argsort(which, kind="stable")
    edges = np.searchsorted(which[order], np.arange(len(codes) + 1))
    for (metric, there, device), code in codes.items():
        yield metric, (there, device), order[edges[code] : edges[code + 1]]
