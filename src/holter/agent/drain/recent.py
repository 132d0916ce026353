"""Keeps the newest records of the first rank in memory, for whoever shows or reports a running job."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from holter.schema.table import Table, objects
from holter.store.parquet.columns import is_pair

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from holter.agent.drain.drain import Drain
    from holter.agent.drain.rows import PolledRows
    from holter.store.parquet.columns import Column, Columns

MOST_ROWS = 4096
"""Of each poll, so many spans are kept at most; older polls are dropped once the newer ones have as many."""
MOST_NUMBERS = 1000
_COLUMNS = ("time", "duration", "rank", "worker", "thread", "step", "mode", "phase", "value")
"""Those from which steps are computed."""


class JobNow(NamedTuple):
    """A running job at one moment."""

    step: int
    """The number of the newest step of the first rank; -1 before the first."""
    phase: str | None
    """The phase that is open in its loop."""
    since: int
    """When that began, wall ns; 0 without an open phase."""
    planned: int | None
    """The number of steps that a trainer plans."""
    spans: tuple[Columns, ...]
    numbers: Mapping[str, float] = {}
    """The newest finite value of each number that the first rank reported, by name."""
    owner: str = ""
    """The trainer that counts the steps, such as transformers.Trainer; empty for plain loops."""

    def table(self) -> Table:
        """Return the kept spans as table `spans`."""
        parts = [Table({name: _values(column) for name, column in columns.items()}) for columns in self.spans]
        return Table.concat(parts) if parts else Table.empty("spans")


class RecentRecords:
    """Takes what each poll of a drain found; another thread may read `now` at any time."""

    def __init__(self) -> None:
        self.now = JobNow(-1, None, 0, None, ())
        self._rank: int | None = None

    def take(self, drain: Drain, batch: PolledRows) -> None:
        """Note what is new. The writer thread calls this after each poll."""
        now = self.now
        known = [one for one in drain.trainers() if drain.ranks.of(one) >= 0]
        living = [one for one in known if one.died is None]
        # A short training may be over when its first records are read.
        first = min(living or known, key=drain.ranks.of, default=None)
        if first is not None:
            begins = {one["phase"]: int(one["begin"]) for one in first.last_open}
            now = now._replace(
                step=max(first.last_step, now.step),
                phase=first.last_phase if living else None,
                since=begins.get(first.last_phase or "", 0) if living else 0,
            )
            now = self._with_spans(now, drain.ranks.of(first), batch.spans)
            now = now._replace(numbers=_with(now.numbers, batch.scalars, drain.ranks.of(first)))
        for event in batch.events:
            steps = event.detail.get("steps") if event.kind == "planned" else None
            if isinstance(steps, int) and steps > 0:
                now = now._replace(planned=steps)
            if event.kind == "owner":
                now = now._replace(owner=str(event.detail.get("owner") or ""))
        self.now = now

    def _with_spans(self, now: JobNow, rank: int, spans: Columns) -> JobNow:
        if self._rank != rank:
            self._rank, now = rank, now._replace(spans=())
        if not spans:
            return now
        ranks, workers = np.asarray(spans["rank"]), np.asarray(spans["worker"])
        mine = (ranks == rank) & (workers == -1)
        if not mine.any():
            return now
        newest = np.flatnonzero(mine)[-MOST_ROWS:]
        chosen: Columns = {name: _taken(spans[name], newest) for name in _COLUMNS}
        kept = (*now.spans, chosen)
        rows = sum(len(one["time"]) for one in kept)
        while rows - len(kept[0]["time"]) >= MOST_ROWS:
            rows -= len(kept[0]["time"])
            kept = kept[1:]
        return now._replace(spans=kept)


def _with(known: Mapping[str, float], scalars: Columns, rank: int) -> Mapping[str, float]:
    """Add the newest values of a rank to those that are known, up to `MOST_NUMBERS` names."""
    if not scalars:
        return known
    found = dict(known)
    table = Table({name: _values(scalars[name]) for name in ("rank", "name", "value")})
    for name, value in zip(
        *(table.where(table["rank"] == rank)[one] for one in ("name", "value")), strict=True
    ):
        if math.isfinite(value) and (name in found or len(found) < MOST_NUMBERS):
            found[str(name)] = float(value)
    return found


def _taken(column: Column, rows: NDArray[np.int64]) -> Column:
    return (column[0][rows], column[1]) if is_pair(column) else np.asarray(column)[rows]


def _values(column: Column) -> NDArray[Any]:
    if is_pair(column):
        codes, texts = column
        return objects([texts[code] for code in codes.tolist()])
    return np.asarray(column)
