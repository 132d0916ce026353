"""Sets of intervals on the time axis: union, difference, overlap, and events at moments and in intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Ints = NDArray[np.int64]


class Intervals(NamedTuple):
    """Disjoint half-open stretches of time `[begin, end)` in order, none empty, none touching the next."""

    begin: Ints
    end: Ints

    @property
    def length(self) -> int:
        """Time covered, ns."""
        return int((self.end - self.begin).sum())


NOTHING = Intervals(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def union(begin: ArrayLike, end: ArrayLike) -> Intervals:
    """Join intervals in any order: overlapping and adjacent ones become one, empty ones are dropped."""
    b, e = np.asarray(begin, dtype=np.int64), np.asarray(end, dtype=np.int64)
    b, e = b[e > b], e[e > b]
    if not len(b):
        return NOTHING
    order = np.argsort(b, kind="stable")
    b, reach = b[order], np.maximum.accumulate(e[order])
    first = np.concatenate([[True], b[1:] > reach[:-1]])
    last = np.concatenate([first[1:], [True]])
    return Intervals(b[first], reach[last])


def difference(whole: Intervals, without: Intervals) -> Intervals:
    """Return the part of `whole` outside `without`."""
    edges = np.sort(np.concatenate([*whole, *without]))  # equal edges are empty intervals
    begin, end = edges[:-1], edges[1:]
    keep = inside(whole, begin) & ~inside(without, begin)
    return union(begin[keep], end[keep])


def inside(these: Intervals, moments: ArrayLike) -> NDArray[np.bool_]:
    """Return for each moment whether the set covers it; the end of an interval is outside."""
    at = np.asarray(moments, dtype=np.int64)
    before = np.searchsorted(these.begin, at, side="right") - 1
    found = before >= 0
    found[found] = at[found] < these.end[before[found]]
    return found


def measure(these: Intervals, begin: ArrayLike, end: ArrayLike) -> Ints:
    """Return how much time of the set lies in each of the stretches `[begin, end)`, ns; they may overlap."""
    return _until(these, end) - _until(these, begin)


def _until(these: Intervals, moments: ArrayLike) -> Ints:
    """Return how much time the set covers before each moment."""
    at = np.asarray(moments, dtype=np.int64)
    whole = np.concatenate([[0], np.cumsum(these.end - these.begin)])
    number = np.searchsorted(these.begin, at, side="right")
    over = np.zeros(len(at), dtype=np.int64)
    some = number > 0
    over[some] = np.maximum(0, these.end[number[some] - 1] - at[some])
    return np.asarray(whole[number] - over, dtype=np.int64)


class Gaps(NamedTuple):
    """Stretches in which nothing ran, and which of the pieces of work ended each."""

    begin: Ints
    end: Ints
    next: Ints
    """Index, in the order given, of the work that began when the gap ended."""


def gaps(begin: ArrayLike, end: ArrayLike) -> Gaps:
    """Find the stretches between pieces of work in which none ran; work is given in any order."""
    b, e = np.asarray(begin, dtype=np.int64), np.asarray(end, dtype=np.int64)
    if len(b) < 2:
        return Gaps(*NOTHING, np.empty(0, dtype=np.int64))
    order = np.lexsort((e, b))
    reach = np.maximum.accumulate(e[order])
    idle = b[order][1:] > reach[:-1]
    return Gaps(reach[:-1][idle], b[order][1:][idle], order[1:][idle])


def times_at(begin: NDArray[Any], end: NDArray[Any], moments: ArrayLike) -> NDArray[np.int64]:
    """Return for each event how many of the moments lie in [begin, end]."""
    ordered = np.sort(np.asarray(moments, dtype=np.int64))
    found = np.searchsorted(ordered, end, side="right") - np.searchsorted(ordered, begin, side="left")
    return np.asarray(found, dtype=np.int64)


def times_during(
    begin: NDArray[Any], end: NDArray[Any], starts: ArrayLike, ends: ArrayLike
) -> NDArray[np.int64]:
    """Return for each event how many of the intervals [start, end] it overlaps.

    Raises:
        ValueError: The numbers of starts and ends differ.
    """
    first, last = (np.sort(np.asarray(given, dtype=np.int64)) for given in (starts, ends))
    if len(first) != len(last):
        raise ValueError(
            f"{len(first)} starts and {len(last)} ends are given, but each interval needs one of each"
        )
    begun = np.searchsorted(first, end, side="right")
    return np.asarray(begun - np.searchsorted(last, begin, side="left"), dtype=np.int64)
