"""Computes exclusive time: the duration of each span without the spans nested in it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from holter.schema.phases import BREAKDOWN

Ints = NDArray[np.int64]

EVAL = BREAKDOWN.index("eval")

# Which of two spans with the same begin and end holds the other: outermost first.
_OUTERMOST_FIRST = (
    "eval",
    "checkpoint",
    "data_loading",
    "compute",
    "forward",
    "loss",
    "backward",
    "optimizer",
    "h2d",
    "communication",
)
NESTING = {part: depth for depth, part in enumerate(_OUTERMOST_FIRST)}
_DEPTH = np.array([NESTING.get(part, len(NESTING)) for part in BREAKDOWN])


def exclusive(begin: Ints, end: Ints, part: NDArray[Any]) -> tuple[Ints, Ints]:
    """Split the time of spans of one thread between them, each moment going to the innermost one.

    Nesting levels are peeled off from the outside: a span that begins after everything before it has
    ended is an outermost one. A span that outlives the one it began in is cut at its end.

    Args:
        begin: When each span begins, ns; any order.
        end: When each span ends, ns; after its begin.
        part: Index into `BREAKDOWN` of what each span is.

    Returns:
        Own time of each span in ns, and the part it counts for: what lies in an evaluation is evaluation.
        Both in the order given.
    """
    order = np.lexsort((_DEPTH[part], -end, begin))
    b, e, p = begin[order], end[order].copy(), part[order].astype(np.int64)
    own = np.zeros(len(b), dtype=np.int64)
    parent = np.full(len(b), -1, dtype=np.int64)
    level = np.arange(len(b))
    while len(level):
        deeper: list[Ints] = []
        while len(level):
            reach = np.maximum.accumulate(e[level])
            outer = np.ones(len(level), dtype=bool)
            outer[1:] = b[level][1:] >= reach[:-1]
            chosen, rest = level[outer], level[~outer]
            _take(chosen, parent, b, e, p, own)
            owner = chosen[np.cumsum(outer)[~outer] - 1]
            inside = b[rest] < e[owner]
            nested = rest[inside]
            parent[nested] = owner[inside]
            e[nested] = np.minimum(e[nested], e[owner[inside]])
            deeper.append(nested)
            # Behind a span that was cut, some lie outside of the outer one: they are of this level too.
            level = rest[~inside]
        level = np.sort(np.concatenate(deeper))
    back_own, back_part = np.empty_like(own), np.empty_like(p)
    back_own[order], back_part[order] = own, p
    return back_own, back_part


def _take(chosen: Ints, parent: Ints, b: Ints, e: Ints, p: Ints, own: Ints) -> None:
    """Give the spans of one level their time, and take it from the spans around them."""
    length = e[chosen] - b[chosen]
    own[chosen] = length
    around = parent[chosen]
    held = around >= 0
    np.subtract.at(own, around[held], length[held])
    in_eval = np.zeros(len(chosen), dtype=bool)
    in_eval[held] = p[around[held]] == EVAL
    p[chosen[in_eval]] = EVAL
