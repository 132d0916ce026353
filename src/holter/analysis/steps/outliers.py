"""Finds steps that take far longer than usual, and the parts that take their extra time."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.steps.run_ahead import paced
from holter.analysis.steps.spread import spread
from holter.analysis.steps.trainings import by_model
from holter.analysis.steps.warmup import by_rank
from holter.schema.phases import BREAKDOWN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from holter.schema.table import Table

MULTIPLIER = 5.0
LEAST_SPREAD = 0.02
"""The median absolute deviation counts as at least this share of the median."""
MIN_RELATIVE = 0.3
"""An outlier also takes more than 1.3 times the median."""
_NAMED = ("annotation", "gc", "checkpoint", "compile")
HOLTER = "holter"
"""The cause of steps beside which holter finished a profiling window."""
_MAX_DETAILED = 100
MOST_FOR_USUAL = 200_000
"""What is usual is the median of at most so many steps of a rank, spread evenly over the job."""


@dataclass(frozen=True, slots=True)
class Outlier:
    """One outlier step of one rank. All times but `time` in ms."""

    rank: int
    step: int
    node: str
    time: int
    duration_ms: float
    limit_ms: float
    extra_ms: float
    """Beyond the median."""
    cause: str
    """The part that took most of the extra time, `compile`, or `holter`."""
    extra: dict[str, float]
    """Part → time beyond that part's own median; only what grew."""
    during: dict[str, float] = field(default_factory=dict)
    """Annotation, pause, checkpoint, or compilation → its time in the step; of the worst outliers only."""


def outliers(
    steps: Table,
    spans: Table | None = None,
    *,
    mask: NDArray[np.bool_] | None = None,
    windows: Sequence[tuple[int, int, int]] = (),
    device_ns: Mapping[int, int] | None = None,
    models: Mapping[int, Sequence[tuple[int, str]]] | None = None,
) -> list[Outlier]:
    """Find the outlier steps of each rank, the most extra time first.

    An outlier takes longer than `median + MULTIPLIER * max(MAD, 0.02 * median)` and than
    `(1 + MIN_RELATIVE) * median` of its rank. A robust limit finds them however many there are; mean and
    standard deviation do not.

    Args:
        steps: Table `steps`, steady state only, or all of it with `mask`.
        spans: Where given, what else ran in the worst of them is named.
        mask: Which rows are steady state; all when absent.
        windows: Rank, begin and end (ns) of the time in which holter finished each profiling window.
        device_ns: Rank → time of its device for a step, where calls return earlier; see `paced`.
        models: Rank → steps in which another model begins to train; each model has its own usual step.
    """
    found: list[Outlier] = []
    if device_ns:
        steps, mask = paced(steps if mask is None else steps.where(mask), device_ns), None
    used = steps if mask is None else steps.where(mask)
    kept = None if mask is None else np.flatnonzero(mask)
    for mine in (mine for rank in by_rank(used) for mine in by_model(used, rank, models or {})):
        rows = mine if kept is None else kept[mine]
        duration = steps["duration"][rows]
        median, limit = _limit(duration)
        if not (duration > limit).any():
            continue
        usual = _usual(steps, rows)
        slow = steps.where(rows[duration > limit])
        found += _of_rank(slow, _beside(slow, median, windows), median, limit, usual)
    found.sort(key=lambda o: (-o.extra_ms, o.rank, o.step))
    if spans is not None:
        _name(found[:_MAX_DETAILED], spans)
    return found


def slowest(
    steps: Table,
    most: int,
    *,
    windows: Sequence[tuple[int, int, int]] = (),
    device_ns: Mapping[int, int] | None = None,
) -> list[tuple[Outlier, dict[str, int]]]:
    """Return the longest steps, whether outliers or not, the longest first, each with its parts in ns.

    Each step is there once, as the rank that took longest for it. What is usual is the median of the rank;
    `windows` and `device_ns` are as for `outliers`.
    """
    steps = paced(steps, device_ns) if device_ns else steps
    longest = _longest(steps, most)
    found: list[tuple[Outlier, dict[str, int]]] = []
    for rank in by_rank(steps):
        mine = longest[np.isin(longest, rank)]
        if not len(mine):
            continue
        median, limit = _limit(steps["duration"][spread_evenly(rank)])
        rows = steps.where(mine)
        judged = _of_rank(rows, _beside(rows, median, windows), median, limit, _usual(steps, rank))
        parts = ({part: int(rows[part][at]) for part in BREAKDOWN} for at in range(rows.rows))
        found += zip(judged, parts, strict=True)
    return sorted(found, key=lambda one: (-one[0].duration_ms, one[0].rank, one[0].step))


def _longest(steps: Table, most: int) -> NDArray[np.int64]:
    """Return the rows of the longest steps, each step once, in the order of the table."""
    count = min(most * len(np.unique(steps["rank"])), steps.rows)
    some = np.argpartition(-steps["duration"], count - 1)[:count]
    some = some[np.lexsort((some, -steps["duration"][some]))]
    _, first = np.unique(steps["step"][some], return_index=True)
    return np.sort(some[np.sort(first)[:most]])


def _limit(duration: NDArray[Any]) -> tuple[float, float]:
    """Return the median of some durations, and the limit above which one of them is an outlier."""
    median = float(np.median(duration))
    deviation = max(spread(duration, median), LEAST_SPREAD * median)
    return median, max(median + MULTIPLIER * deviation, (1 + MIN_RELATIVE) * median)


def _usual(steps: Table, rows: NDArray[np.int64]) -> dict[str, float]:
    """Return the median of each part of some steps."""
    some = steps.where(spread_evenly(rows))
    return {part: float(np.median(some[part])) for part in (*BREAKDOWN, "compile")}


def spread_evenly(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return at most `MOST_FOR_USUAL` of some rows, with the same distance between them."""
    return rows[:: len(rows) // MOST_FOR_USUAL + 1]


def _beside(slow: Table, median: float, windows: Sequence[tuple[int, int, int]]) -> list[bool]:
    """Return whether each step overlaps the finishing of a window for at least half of its extra time."""
    end, found = slow["time"] + slow["duration"], np.zeros(slow.rows, dtype=bool)
    for rank, begin, done in windows:
        together = np.minimum(end, done) - np.maximum(slow["time"], begin)
        found |= (slow["rank"] == rank) & (2 * together >= slow["duration"] - median)
    return list(found.tolist())


def _of_rank(
    slow: Table, beside: list[bool], median: float, limit: float, usual: dict[str, float]
) -> Iterator[Outlier]:
    """Yield the outliers of a rank; there may be hundreds of thousands, so columns are read at once."""
    taken = {part: ((slow[part] - length) / 1e6).tolist() for part, length in usual.items()}
    compiled = taken.pop("compile")
    rows = zip(*(slow[name].tolist() for name in ("rank", "step", "node", "time", "duration")), strict=True)
    for at, (rank, step, node, time, duration) in enumerate(rows):
        grown = sorted(((part, ms[at]) for part, ms in taken.items() if ms[at] > 0), key=lambda one: -one[1])
        extra_ms = (duration - median) / 1e6
        most = "compile" if compiled[at] > extra_ms / 2 else grown[0][0] if grown else "other"
        yield Outlier(
            rank=rank,
            step=step,
            node=node,
            time=time,
            duration_ms=duration / 1e6,
            limit_ms=limit / 1e6,
            extra_ms=extra_ms,
            cause=HOLTER if beside[at] else most,
            extra=dict(grown),
        )


def _name(found: list[Outlier], spans: Table) -> None:
    wanted = (spans["worker"] == -1) & np.isin(spans["phase"].astype(str), _NAMED)
    spans = spans.where(wanted)
    end = spans["time"] + spans["duration"]
    for outlier in found:
        last = outlier.time + round(outlier.duration_ms * 1e6)
        inside = (spans["rank"] == outlier.rank) & (spans["time"] < last) & (end > outlier.time)
        times: dict[str, float] = defaultdict(float)
        for row in np.flatnonzero(inside).tolist():
            overlap = min(int(end[row]), last) - max(int(spans["time"][row]), outlier.time)
            times[spans["name"][row] or spans["phase"][row]] += overlap / 1e6
        outlier.during.update(sorted(times.items(), key=lambda item: -item[1]))
