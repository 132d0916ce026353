"""Durations of waits for batches, iterator starts and worker lifetimes, with their outliers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.events import details
from holter.analysis.loading.loader_timeline import epochs, waits_of
from holter.schema.phases import ITERATOR_START, NEXT_BATCH
from holter.schema.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

OUTLIER = 2.0
"""An outlier takes at least this many times the median."""


@dataclass(frozen=True, slots=True)
class Durations:
    """How long something took each time. Times are ns; None when it never happened."""

    count: int
    median: int | None
    longest: int | None
    outliers: Table
    """Those of at least `OUTLIER` times the median, the longest first: `rank`, `loader`, `worker`, `begin`,
    `end`, `duration`."""


def next_batches(spans: Table) -> Durations:
    """Return how long the training threads waited for each batch."""
    waits = waits_of(spans, NEXT_BATCH)
    return _durations(waits["time"], waits["duration"], waits)


def initializations(spans: Table) -> Durations:
    """Return how long it took to make iterators, and with them to start workers."""
    starts = waits_of(spans, ITERATOR_START)
    return _durations(starts["time"], starts["duration"], starts)


def batch_times(spans: Table) -> Durations:
    """Return the times from asking for one batch to asking for the next one of the same loader and epoch."""
    parts = [waits_of(spans, NEXT_BATCH).where(slice(0))]
    times = [np.empty(0, np.int64)]
    for waits, _, _, _, _ in epochs(spans):
        parts.append(waits.where(slice(0, -1)))
        times.append(np.diff(waits["time"]))
    rows = Table.concat(parts)
    return _durations(rows["time"], np.concatenate(times), rows)


def worker_lives(events: Table) -> Durations:
    """Return how long workers lived, of those that have ended: from table `events`."""
    found = lives(events)
    rows = Table({**found.columns, "value": np.full(found.rows, np.nan)})
    return _durations(found["begin"], found["end"] - found["begin"], rows)


def lives(events: Table) -> Table:
    """Return `rank`, `worker`, `begin` and `end` (ns) of each worker that has ended."""
    began: dict[str, tuple[int, int, int]] = {}
    ended: dict[str, int] = {}
    for row, detail in details(events, "process", "end", "exit"):
        try:
            process = str(detail["process"])
            if row["kind"] != "process":
                ended[process] = min(int(row["time"]), ended.get(process, int(row["time"])))
            elif detail["role"] == "worker":
                began[process] = (int(detail["wall"]), int(row["rank"]), int(detail["worker"]))
        except (ValueError, KeyError, TypeError):
            continue
    rows = sorted((*began[key], ended[key]) for key in began.keys() & ended.keys())
    return Table.of_tuples(dict.fromkeys(("begin", "rank", "worker", "end"), np.int64), rows)


def _durations(begin: NDArray[Any], took: NDArray[Any], rows: Table) -> Durations:
    median = float(np.median(took)) if len(took) else None
    long = np.flatnonzero(took >= OUTLIER * median) if median else np.empty(0, np.int64)
    long = long[np.argsort(-took[long], kind="stable")]
    loader = np.where(np.isfinite(rows["value"]), rows["value"], -1).astype(np.int64)
    columns = {"rank": rows["rank"], "loader": loader, "worker": rows["worker"]}
    outliers = Table({**columns, "begin": begin, "end": begin + took, "duration": took}).where(long)
    longest = int(took.max()) if len(took) else None
    return Durations(len(took), None if median is None else int(median), longest, outliers)
