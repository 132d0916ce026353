"""Assigns the events of a timeline row to lines by their nesting depth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray


def order(begin: NDArray[np.int64], duration: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the order in which `depths` wants events: by begin, and the longer first."""
    return np.lexsort((-duration, begin))


def depths(begin: NDArray[np.int64], duration: NDArray[np.int64]) -> NDArray[np.int16]:
    """Return for each event on which line it is drawn, from 0: no two events of a line overlap.

    Where events are nested, an event's line is the number of events around it. Where they overlap without
    being nested, as kernels of a captured graph on one stream, an event takes the first line that is free.
    An event without duration counts as 1 ns long.

    Args:
        begin: Begins in ns, in the order that `order` gives.
        duration: Durations in ns.
    """
    rows = len(begin)
    end = begin + np.maximum(duration, 1)
    ended: NDArray[Any] = np.searchsorted(np.sort(end), begin, side="right")
    depth: NDArray[np.int16] = (np.arange(rows) - ended).astype(np.int16)
    by_line = np.argsort(depth, kind="stable")
    same = depth[by_line[1:]] == depth[by_line[:-1]]
    clash = by_line[1:][same & (end[by_line[:-1]] > begin[by_line[1:]])]
    if len(clash):
        # A stretch lies between two moments at which nothing runs; only those with a clash are redone.
        stretch = np.cumsum(depth == 0)
        redo = np.flatnonzero(np.isin(stretch, np.unique(stretch[clash])))
        depth[redo] = _first_free(begin[redo].tolist(), end[redo].tolist())
    return depth


def _first_free(begins: Iterable[int], ends: Iterable[int]) -> list[int]:
    lines: list[int] = []
    taken = []
    for begin, end in zip(begins, ends, strict=True):
        line = next((n for n, until in enumerate(lines) if until <= begin), len(lines))
        lines[line : line + 1] = [end]
        taken.append(line)
    return taken
