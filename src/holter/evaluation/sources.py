"""Reads rows for the evaluator: of a finished job in stretches of time, of a running one file by file."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from holter.evaluation.evaluator import KEYS, STEP_PHASES, Evaluator
from holter.evaluation.schedule import EARLY_EVERY_S, SECOND
from holter.rules import SampleSeries
from holter.schema.phases import NO_PROGRESS
from holter.schema.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.rules.engine.lookback import Place
    from holter.schema.table import Table
    from holter.store.follow import Follow
    from holter.store.trial import Trial

ROWS, AT_ONCE = 200_000, 1_000_000
"""The approximate number of rows per batch, of a running and of a finished job."""
SHORTEST_NS = 10_000_000_000
SETTLE_NS = 2_000_000_000
"""The longest delay between the files of two processes for rows of the same time."""
FIRST_NS = 8_000_000_000
"""The same before the first span: the first file of spans comes a few seconds after that of samples."""
SILENT_NS = 75_000_000_000
"""A table this far behind the others has no new rows: files are written at least once a minute."""


def tables(evaluator: Evaluator) -> list[str]:
    """Return the tables to read: those of the rules, and the sources of steps and facts."""
    return [name for name in TABLES if name != "steps" and name in {*evaluator.reads, "spans", "events"}]


def replay(trial: Trial, evaluator: Evaluator, *, since: int | None = None) -> Iterator[int]:
    """Pass a job's rows to the evaluator in stretches of time; yields the end of each stretch.

    Rows are selected by their begin, so every row that ended within a stretch was passed by its end.
    """
    names = [*tables(evaluator), "steps"]
    conditions = {name: _condition(evaluator, name) for name in names}
    first, last, most = None, None, 0
    for name in names:
        # Without the filters of rules, the footers of the files answer the query.
        after = f" WHERE time >= {since}" if since is not None else ""
        query = f"SELECT min(time) AS a, max(time) AS b, count(*) AS n FROM {name}{after}"  # noqa: S608
        a, b, n = (trial.sql(query)[column][0] for column in ("a", "b", "n"))
        if n:
            first = int(a) if first is None else min(first, int(a))
            last = int(b) if last is None else max(last, int(b))
            most = max(most, int(n))
    if first is None or last is None:
        return
    _pass_activity(trial, evaluator, since)
    samples = _Samples(trial, conditions["samples"]) if "samples" in names else None
    length = max(SHORTEST_NS, -(-(last - first + 1) * AT_ONCE // max(most, 1)))
    begin: int | None = since
    for end in range(first + length, last + length + 1, length):
        for name in names:
            if name == "samples" and samples is not None:
                samples.hand_over(evaluator, begin, end)
            else:
                evaluator.take(name, trial.table(name, start_ns=begin, end_ns=end, where=conditions[name]))
        begin = end
        yield min(end - 1, last)


def _condition(evaluator: Evaluator, name: str) -> str:
    only = evaluator.reads.get(name, frozenset[str]())
    if only is None or name not in KEYS or name == "events":
        return "true"
    chosen = f"{KEYS[name]} IN ({', '.join(map(_quoted, sorted(only)))})" if only else "false"
    if name == "spans":
        # Steps are computed from these spans, unless the steps are in the store already.
        parts = f"phase IN ({', '.join(map(_quoted, STEP_PHASES))})"
        done = "".join(f" WHEN {rank} THEN {end}" for rank, end in evaluator.steps_done.items())
        waits = f" AND time + duration > CASE rank{done} ELSE {-(2**62)} END" if done else ""
        chosen += f" OR ({parts}{waits})"
    return chosen


def _pass_activity(trial: Trial, evaluator: Evaluator, since: int | None) -> None:
    """Pass the activity of each rank to the facts, as finely as the grid of moments."""
    start, every = evaluator.facts.start, EARLY_EVERY_S * SECOND
    after = f"time + duration > {since}" if since is not None else "true"
    query = (
        f"SELECT rank, max(time + duration) AS done FROM spans WHERE {after} "  # noqa: S608
        f"AND phase NOT IN {NO_PROGRESS} "
        f"GROUP BY rank, (time + duration - {start} + {every - 1}) // {every}"
    )
    found = trial.sql(query)
    evaluator.facts.spans(found["rank"], found["done"])


class _Samples:
    """Reads samples of a finished job series by series, which avoids a text column for a million rows."""

    def __init__(self, trial: Trial, condition: str) -> None:
        self._trial = trial
        self._condition = condition
        self._series: dict[int, tuple[str, Place]] = {}

    def hand_over(self, evaluator: Evaluator, begin: int | None, end: int) -> None:
        """Pass the readings of a stretch of time to the evaluator."""
        limits = f"time < {end} AND ({self._condition})"
        limits += "" if begin is None else f" AND time >= {begin}"
        which = "hash(metric, coalesce(device, ''), node)"
        query = f"SELECT time, value, {which} AS which FROM samples WHERE {limits}"  # noqa: S608
        rows = self._trial.sql(query, start_ns=begin, end_ns=end)
        if not rows.rows:
            return
        # Compacted files hold series one after another, so there are few runs; fresh ones are sorted here.
        order = None
        codes = rows["which"]
        if np.count_nonzero(codes[1:] != codes[:-1]) > rows.rows // 8:
            order = np.lexsort((rows["time"], codes))
            codes = codes[order]
        time, value = (rows[c] if order is None else rows[c][order] for c in ("time", "value"))
        edges = [0, *(np.flatnonzero(codes[1:] != codes[:-1]) + 1).tolist(), rows.rows]
        if not self._series.keys() >= set(codes[edges[:-1]].tolist()):
            query = (
                f"SELECT DISTINCT {which} AS which, metric, coalesce(device, '') AS device, node "  # noqa: S608
                f"FROM samples WHERE {limits}"
            )
            for row in self._trial.sql(query).to_rows():
                self._series[row["which"]] = (row["metric"], (row["node"], row["device"]))
        for low, high in itertools.pairwise(edges):
            metric, place = self._series[int(codes[low])]
            # An absent reading is NaN, which `RecentData` leaves out.
            one = SampleSeries(time[low:high], value[low:high].astype(np.float64, copy=False))
            if np.any(one.time[1:] < one.time[:-1]):
                by_time = np.argsort(one.time, kind="stable")
                one = SampleSeries(one.time[by_time], one.value[by_time])
            evaluator.take_series(metric, place, one)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class Stream:
    """Reads the rows of a running job, and knows the moment up to which all have arrived."""

    def __init__(self, follow: Follow, evaluator: Evaluator, *, since: int | None = None) -> None:
        self._follow = follow
        self._evaluator = evaluator
        self._since = since
        self._newest: dict[tuple[str, str], int] = {}
        self._drained: dict[str, bool] = {}

    def read(self) -> bool:
        """Pass new rows to the evaluator, one batch per table; returns whether all were read."""
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
        """The moment up to which all rows have arrived; None before the first row."""
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
        # Only tables that are written all the time show the progress of a node.
        if name not in ("samples", "spans"):
            return
        ends = rows["time"] + rows["duration"] if "duration" in rows else rows["time"]
        nodes = rows["node"]
        written = set(nodes.tolist())  # usually one node
        for node in written:
            newest = int((ends if len(written) == 1 else ends[nodes == node]).max())
            self._newest[(name, node)] = max(newest, self._newest.get((name, node), 0))
