"""Where rows come from: a finished job in stretches of time, a running one file by file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.evaluation.evaluator import KEYS, STEP_PHASES
from holter.schema.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.evaluation.evaluator import Evaluator
    from holter.schema.table import Table
    from holter.store.follow import Follow
    from holter.store.trial import Trial

ROWS = 200_000
"""About so many rows are in memory at once."""
SHORTEST_NS = 10_000_000_000
SETTLE_NS = 2_000_000_000
"""Rows of one process may be written so much later than those of another that ended with them."""
FIRST_NS = 8_000_000_000
"""The same while no span has come yet: the first file of spans is a few seconds behind that of samples."""
SILENT_NS = 75_000_000_000
"""A table that is so far behind the others has nothing to say: files are written at least once a minute."""


def tables(evaluator: Evaluator) -> list[str]:
    """Return the tables to read: what the rules read, and what steps and facts come from."""
    return [name for name in TABLES if name != "steps" and name in {*evaluator.reads, "spans", "events"}]


def replay(trial: Trial, evaluator: Evaluator, *, since: int | None = None) -> Iterator[int]:
    """Hand over a job's rows in stretches of time; yields the end of each, up to which nothing is missing.

    Rows are read by when they began, so all that ended within a stretch have been handed over with it.
    """
    names = [*tables(evaluator), "steps"]
    conditions = {name: _condition(evaluator, name) for name in names}
    first, last, most = None, None, 0
    for name in names:
        after = f"time >= {since}" if since is not None else "true"
        where = f"{after} AND ({conditions[name] or 'true'})"
        query = f"SELECT min(time) AS a, max(time) AS b, count(*) AS n FROM {name} WHERE {where}"  # noqa: S608
        a, b, n = (trial.sql(query)[column][0] for column in ("a", "b", "n"))
        if n:
            first = int(a) if first is None else min(first, int(a))
            last = int(b) if last is None else max(last, int(b))
            most = max(most, int(n))
    if first is None or last is None:
        return
    length = max(SHORTEST_NS, -(-(last - first + 1) * ROWS // max(most, 1)))
    begin: int | None = since
    for end in range(first + length, last + length + 1, length):
        for name in names:
            evaluator.take(name, trial.table(name, start_ns=begin, end_ns=end, where=conditions[name]))
        begin = end
        yield min(end - 1, last)


def _condition(evaluator: Evaluator, name: str) -> str | None:
    only = evaluator.reads.get(name, frozenset[str]())
    if only is None or name not in KEYS or name == "events":
        return None
    words = sorted({*only, *(STEP_PHASES if name == "spans" else ())})
    return (
        f"{KEYS[name]} IN ({', '.join(chr(39) + w.replace(chr(39), chr(39) * 2) + chr(39) for w in words)})"
    )


class Stream:
    """Rows of a running job as they come, and the moment up to which none is missing."""

    def __init__(self, follow: Follow, evaluator: Evaluator, *, since: int | None = None) -> None:
        self._follow = follow
        self._evaluator = evaluator
        self._since = since
        self._newest: dict[tuple[str, str], int] = {}
        self._drained: dict[str, bool] = {}

    def read(self) -> bool:
        """Hand over what is new, not more than fits; returns whether nothing is left for now."""
        for name in tables(self._evaluator):
            rows = self._follow.new(name, max_rows=ROWS)
            self._drained[name] = rows.rows < ROWS
            if rows.rows:
                self._note(name, rows)
                if self._since is not None:
                    ends = rows["time"] + rows["duration"] if "duration" in rows else rows["time"]
                    rows = rows.where(ends > self._since)
                self._evaluator.take(name, rows)
        return all(self._drained.values())

    @property
    def complete_until(self) -> int | None:
        """Up to when all rows are here; nothing while there are none."""
        if not self._newest:
            return None
        front = max(self._newest.values())
        speaking = [
            newest
            for (table, _), newest in self._newest.items()
            if not self._drained.get(table, True) or newest > front - SILENT_NS
        ]
        trained = any(table == "spans" for table, _ in self._newest)
        return min(speaking) - (SETTLE_NS if trained else FIRST_NS)

    def _note(self, name: str, rows: Table) -> None:
        # Only what is written all the time tells how far a node has got.
        if name not in ("samples", "spans"):
            return
        ends = rows["time"] + rows["duration"] if "duration" in rows else rows["time"]
        for node in np.unique(rows["node"].astype(str)).tolist():
            newest = int(ends[rows["node"] == node].max())
            self._newest[(name, node)] = max(newest, self._newest.get((name, node), 0))
