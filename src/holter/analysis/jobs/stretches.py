"""Cuts a job into intervals before, within, between and after phases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.intervals import inside as covers
from holter.analysis.intervals import union
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def intervals(
    begin: NDArray[Any], end: NDArray[Any], phase: Sequence[str] | NDArray[Any], first: int, last: int
) -> Table:
    """Cut [first, last] by stretches of phases.

    Args:
        begin: When each stretch of a phase begins.
        end: When it ends.
        phase: Which phase it is. With several, stretches of one that follow one another are one.
        first: When the job begins.
        last: When it ends.

    Returns:
        The parts in the order of time: `start`, `end`, `phase`, which is `X`, `Before X`, `Between X and Y`
        or `After Y`; the names in `Between X and Y` are in the order of the alphabet, as what lies between
        the two is the same whichever came first.
    """
    if not len(begin):
        nothing = np.empty(0, np.int64)
        return Table({"start": nothing, "end": nothing, "phase": np.empty(0, object)})
    names, codes = np.unique(np.asarray(phase).astype(str), return_inverse=True)
    order = np.lexsort((codes, end, begin))
    start, until, code = begin[order], end[order], codes[order]
    if len(names) > 1:
        opens = np.flatnonzero(np.diff(code, prepend=-1))
        start, until, code = start[opens], np.maximum.reduceat(until, opens), code[opens]
    gaps = np.flatnonzero(start[1:] > until[:-1])
    lower, upper = np.minimum(code[gaps], code[gaps + 1]), np.maximum(code[gaps], code[gaps + 1])
    # A long job has a million of them, of few names: each name is one object.
    between = np.array([[f"Between {one} and {other}" for other in names] for one in names], object)
    columns = [
        np.concatenate([start, until[gaps]]),
        np.concatenate([until, start[gaps + 1]]),
        np.concatenate([names.astype(object)[code], between[lower, upper]]),
    ]
    merged = np.argsort(np.concatenate([2 * np.arange(len(start)), 2 * gaps + 1]), kind="stable")
    columns = [column[merged] for column in columns]
    final = int(np.argmax(until))
    if first < start[0]:
        columns = _joined(([first], [start[0]], [f"Before {names[code[0]]}"]), columns)
    if until[final] < last:
        columns = _joined(columns, ([until[final]], [last], [f"After {names[code[final]]}"]))
    return Table(dict(zip(("start", "end", "phase"), columns, strict=True)))


def _joined(one: Sequence[Any], other: Sequence[Any]) -> list[NDArray[Any]]:
    types = (np.int64, np.int64, object)
    return [np.concatenate([a, b]).astype(t) for a, b, t in zip(one, other, types, strict=True)]


def inside(time: NDArray[Any], parts: Table) -> NDArray[np.bool_]:
    """Return which times lie in one of the parts; the end of a part is outside."""
    return covers(union(parts["start"], parts["end"]), time)
