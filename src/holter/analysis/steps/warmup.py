"""Selects the steady state: steps without warm-up, compilation and the first step of an attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.schema.table import repeats

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from holter.schema.table import Table

WARMUP_STEPS = 10
"""Largest number of warm-up steps of an attempt."""

_SETTLED = 1.3
"""A step after warm-up takes at most this many times the median of later steps."""


def by_rank(steps: Table) -> Iterator[NDArray[np.int64]]:
    """Yield the row numbers of each rank's steps, in order of time."""
    ranks, time = steps["rank"], steps["time"]
    if repeats(ranks):
        rows = np.arange(steps.rows)
        yield rows if (time[1:] >= time[:-1]).all() else np.argsort(time, kind="stable")
        return
    # Radix sort, which numpy has for small integers only: tables of a long job hold millions of rows.
    small = ranks.astype(np.int16) if ranks.size and ranks.max() < 2**15 else ranks
    order = np.argsort(small, kind="stable")
    starts = np.flatnonzero(np.diff(ranks[order])) + 1
    for rows in np.split(order, starts):
        if len(rows) and (np.diff(time[rows]) < 0).any():
            yield rows[np.argsort(time[rows], kind="stable")]
        elif len(rows):
            yield rows


def steady(steps: Table) -> NDArray[np.bool_]:
    """Return which rows of table `steps` are steady state.

    Of each attempt of each rank (the step number starts again) the first step is left out, then those up to
    the last slow one of the first ten, and every step in which a compiler ran. At least half of the steps of
    an attempt stay, so that a short job keeps some; where only compile steps are left, they stay too.
    """
    keep = np.ones(steps.rows, dtype=bool)
    for attempt in attempts(steps):
        _mark(steps, attempt, keep)
    return keep


def attempts(steps: Table) -> Iterator[NDArray[np.int64]]:
    """Yield the row numbers of each attempt of each rank, in order of time."""
    for rows in by_rank(steps):
        restarts = np.flatnonzero(np.diff(steps["step"][rows]) <= 0) + 1
        yield from np.split(rows, restarts)


def _mark(steps: Table, attempt: NDArray[np.int64], keep: NDArray[np.bool_]) -> None:
    count = len(attempt)
    if count < 2:
        return
    quiet = steps["compile"][attempt] == 0
    limit = min(WARMUP_STEPS, count // 2)
    duration = steps["duration"][attempt]
    later = duration[limit:][quiet[limit:]]
    typical = np.median(later if len(later) else duration[limit:])
    slow = np.flatnonzero(duration[:limit] > _SETTLED * typical)
    warm = int(slow[-1]) + 1 if len(slow) else 1
    stay = np.arange(count) >= warm
    if (stay & quiet).any():
        stay &= quiet
    keep[attempt] = stay
