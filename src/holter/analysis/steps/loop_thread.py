"""Finds the thread that runs the training loop, which is not the main thread under Ray or in a GUI."""

from __future__ import annotations

from itertools import groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from holter.schema.table import Table


def by_loop(spans: Table) -> NDArray[np.bool_]:
    """Return which spans the thread of the training loop wrote.

    It is the thread of a rank's training process with the most STEP spans; spans in which it trains outweigh
    all others. Without STEP spans it is the main thread.
    """
    own = spans["worker"] == -1
    steps = spans.where(own & (spans["phase"] == "step"))
    weight = np.where(steps["mode"] == "train", max(steps.rows, 1), 1)
    found = np.zeros(spans.rows, dtype=bool)
    for rank in np.unique(spans["rank"][own]).tolist():
        mine = steps["rank"] == rank
        counts = np.bincount(steps["thread"][mine], weight[mine], minlength=1)
        loop = int(counts.argmax())
        found |= own & (spans["rank"] == rank) & (spans["thread"] == loop)
    return found


COUNTED = """
    WITH done AS (SELECT rank, thread, step, phase, time, duration, max(time + duration) OVER (
                      PARTITION BY node, rank, thread, phase ORDER BY time, duration
                      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
                  FROM spans WHERE worker = -1 AND phase IN ('step', 'optimizer')),
    ending AS (SELECT rank, thread, min(step) AS first, max(step) AS last, count(*) AS steps,
                      count(*) FILTER (before > time + duration // 10) AS overlapping
               FROM done WHERE phase = 'step' GROUP BY ALL)
    SELECT rank, thread, first, last, steps, overlapping, count(*) FILTER (
        phase = 'optimizer' AND (first IS NULL OR step NOT BETWEEN first AND last)) AS outside
    FROM done LEFT JOIN ending USING (rank, thread) GROUP BY ALL ORDER BY rank, first NULLS LAST, thread
"""
"""Query for `not_counted`: the steps that each thread ends, those that overlap, and updates outside of them.

A tenth of a step is tolerated as an overlap, because clocks are set right while a job runs.
"""


def not_counted(threads: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return sentences about work that table `steps` lacks, by rank; empty for most jobs.

    This is work of threads outside the training loop, and steps of several processes with the same rank.
    Spans do not name their process, so that such steps cannot be separated.
    """
    found = []
    for rank, rows in groupby(threads, itemgetter("rank")):
        listed = list(rows)
        ending = [one for one in listed if one["last"] is not None]
        found += [
            f"{one['overlapping']:,} of {one['steps']:,} steps of rank {rank}, which overlap other steps: "
            "several processes have this rank"
            for one in ending
            if one["overlapping"]
        ]
        found += [
            f"{one['outside']:,} optimizer steps of rank {rank}'s thread {one['thread']}, outside its "
            "training loop"
            for one in listed
            if ending and len(listed) > 1 and one["outside"]
        ]
        found += [
            f"the owner of rank {rank}'s steps: threads {one['thread']} and {other['thread']} both end steps"
            for one, other in pairwise(ending)
            if other["first"] < one["last"]
        ]
    return tuple(found)
