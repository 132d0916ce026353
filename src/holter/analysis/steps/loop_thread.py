"""Which thread of a training process runs the training loop: under Ray, or in a GUI, not the main one."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from holter.schema.table import Table


def by_loop(spans: Table) -> NDArray[np.bool_]:
    """Return which spans the training loop's own thread wrote.

    It is the thread of a rank's training process that wrote most of the STEP spans given, those in which it
    trained before all others; the main thread without any.
    """
    own = spans["worker"] == -1
    steps = spans.where(own & (spans["phase"] == "step"))
    weight = np.where(
        steps["mode"] == "train", max(steps.rows, 1), 1
    )  # one that trained outweighs all others
    found = np.zeros(spans.rows, dtype=bool)
    for rank in np.unique(spans["rank"][own]).tolist():
        mine = steps["rank"] == rank
        counts = np.bincount(steps["thread"][mine], weight[mine], minlength=1)
        loop = int(counts.argmax())
        found |= own & (spans["rank"] == rank) & (spans["thread"] == loop)
    return found


COUNTED = """
    WITH done AS (SELECT rank, thread, step, phase FROM spans
                  WHERE worker = -1 AND phase IN ('step', 'optimizer')),
    ending AS (SELECT rank, thread, min(step) AS first, max(step) AS last FROM done
               WHERE phase = 'step' GROUP BY ALL)
    SELECT rank, thread, first, last, count(*) FILTER (
        phase = 'optimizer' AND (first IS NULL OR step NOT BETWEEN first AND last)) AS beside
    FROM done LEFT JOIN ending USING (rank, thread) GROUP BY ALL ORDER BY rank, first NULLS LAST, thread
"""
"""What `not_counted` takes, asked of a job: the steps that each thread ended, and its updates beside them."""


def not_counted(threads: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Say what threads beside a rank's training loop do that no step counts; nothing in most jobs."""
    by_rank: dict[int, list[Mapping[str, Any]]] = {}
    for one in threads:
        by_rank.setdefault(one["rank"], []).append(one)
    found = []
    for rank, listed in by_rank.items():
        ending = [one for one in listed if one["last"] is not None]
        found += [
            f"{one['beside']:,} optimizer steps of rank {rank}'s thread {one['thread']}, beside its loop"
            for one in listed
            if ending and len(listed) > 1 and one["beside"]
        ]
        found += [
            f"whose the steps are: rank {rank}'s threads {one['thread']} and {other['thread']} both end them"
            for one, other in pairwise(ending)
            if other["first"] < one["last"]
        ]
    return tuple(found)
