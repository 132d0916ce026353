"""Computes levels of detail of a timeline: short events are merged into blocks, and long ones are kept.

Level n has blocks of 1024 · 4ⁿ ns. An event that is at least as long as a block of level n, and shorter than
one of level n + 1, is kept as a row of level n. Shorter ones are merged, at each level: those that begin in
one block, on one line, become one row. A picture of level n is so the merged rows of level n and the kept
rows of level n and all above: a few for each block of time, however many events there are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

_FINEST_BITS = 10
_BITS = 2
_BLOCKS_AT_TOP = 512
"""A whole timeline has about so many blocks at the coarsest level, at least."""
ALL_KEPT = 4096
"""A lane of no more events keeps each as a row, from level 0."""
_REDUCTION = 4
"""The finest level of a lane has at most a row for so many events: below it, events themselves are read …"""
_PER_BLOCK = 150
"""… unless a block of it has more events than this, of all lanes: then too many would have to be read."""


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


def width(level: int) -> int:
    """Return the ns of a block of a level."""
    return 1 << (_FINEST_BITS + _BITS * level)


def level_for(ns_per_pixel: float) -> int:
    """Return the level whose blocks are nearest to a pixel: between half of one and two.

    Below 0 are blocks finer than those of any tile, down to 1 ns: for pictures of events themselves.
    """
    return round((math.log2(max(ns_per_pixel, 1.0)) - _FINEST_BITS) / _BITS)


def top_level(extent_ns: int) -> int:
    """Return the coarsest level that a timeline of this length needs."""
    return max(0, int(math.log2(max(extent_ns, 1) / _BLOCKS_AT_TOP) - _FINEST_BITS) // _BITS)


def coarsest_finest(events_per_s: float) -> int:
    """Return the level that every lane has at least, where all together have so many events a second."""
    return max(0, level_for(_PER_BLOCK / max(events_per_s, 1e-9) * 1e9))


@dataclass(frozen=True, slots=True)
class TileBlocks:
    """Rows of one lane: events, or several merged. Sorted by line, then by begin."""

    time: NDArray[np.int64]
    """Begin of the first event, ns."""
    duration: NDArray[np.int64]
    """To the end of the last, ns."""
    depth: NDArray[np.int16]
    """Line."""
    name: NDArray[np.int32]
    """Code of the name of the longest."""
    count: NDArray[np.int64]
    """Events."""
    busy: NDArray[np.int64]
    """Sum of their durations, ns."""
    longest: NDArray[np.int64]
    """Duration of the longest, ns."""

    def __len__(self) -> int:
        return len(self.time)

    def where(self, chosen: NDArray[Any] | slice) -> TileBlocks:
        """Keep the rows that a mask or indices choose."""
        return TileBlocks(*(getattr(self, field)[chosen] for field in self.__slots__))

    @classmethod
    def concat(cls, parts: list[TileBlocks]) -> TileBlocks:
        """Put rows one after another, sorted again."""
        whole = cls(*(np.concatenate([getattr(p, f) for p in parts]) for f in cls.__slots__))
        return whole.where(np.lexsort((whole.time, whole.depth)))


def events(
    begin: NDArray[np.int64],
    duration: NDArray[np.int64],
    name: NDArray[np.int32],
    depth: NDArray[np.int16],
) -> TileBlocks:
    """Take the events of one lane as rows; begins and durations in ns, names as codes."""
    whole = TileBlocks(begin, duration, depth, name, np.ones(len(begin), np.int64), duration, duration)
    return whole.where(np.lexsort((begin, depth)))


def merged(rows: TileBlocks, level: int) -> TileBlocks:
    """Merge rows that begin in the same block of a level, on the same line."""
    if not len(rows):
        return rows
    block = rows.time >> (_FINEST_BITS + _BITS * level)
    new = (rows.depth[1:] != rows.depth[:-1]) | (block[1:] != block[:-1])
    first = np.concatenate([[0], np.flatnonzero(new) + 1])
    longest = np.maximum.reduceat(rows.longest, first)
    sizes = np.diff(first, append=len(rows))
    is_longest = rows.longest == np.repeat(longest, sizes)
    pick = np.minimum.reduceat(np.where(is_longest, np.arange(len(rows)), len(rows)), first)
    time = rows.time[first]
    return TileBlocks(
        time,
        np.maximum.reduceat(rows.time + rows.duration, first) - time,
        rows.depth[first],
        rows.name[pick],
        np.add.reduceat(rows.count, first),
        np.add.reduceat(rows.busy, first),
        longest,
    )


def simplified(rows: TileBlocks, level: int) -> TileBlocks:
    """Return the picture of a level: what is shorter than its blocks merged, the rest as it is."""
    short = rows.longest < width(level)
    if not short.any():
        return rows
    return TileBlocks.concat([merged(rows.where(short), level), rows.where(~short)])


@dataclass(frozen=True, slots=True)
class TileLane:
    """The levels of one lane."""

    level: NDArray[np.int16]
    """Level of each row."""
    rows: TileBlocks
    finest: int
    """The finest level that it has; below it, pictures are made of the events themselves."""
    lines: int
    """How many lines it has."""


def build(
    begin: NDArray[np.int64],
    duration: NDArray[np.int64],
    name: NDArray[np.int32],
    *,
    top: int,
    finest: int,
) -> TileLane:
    """Compute the levels of one lane.

    Args:
        begin: Begins of its events in ns, in any order.
        duration: Durations in ns.
        name: Names as codes.
        top: The coarsest level to compute.
        finest: The finest one is no coarser than this.
    """
    sequence = order(begin, duration)
    begin, duration, name = begin[sequence], duration[sequence], name[sequence]
    depth = depths(begin, duration)
    every = events(begin, duration, name, depth)
    few = len(every) <= ALL_KEPT
    level = 0 if few else _finest(every, min(top, finest))
    finest, kept, found = level, [], []
    short = every.longest < width(level)
    low = every.where(short) if few else merged(every.where(short), level)
    rest = every.where(~short)
    while True:
        is_kept = rest.longest < width(level + 1) if level < top else np.ones(len(rest), dtype=bool)
        long = rest.where(is_kept)
        found += [low, long]
        kept += [np.full(len(low) + len(long), level, np.int16)]
        if level == top:
            break
        rest = rest.where(~is_kept)
        level += 1
        low = merged(TileBlocks.concat([low, long]), level)
    whole = TileBlocks(*(np.concatenate([getattr(p, f) for p in found]) for f in TileBlocks.__slots__))
    return TileLane(np.concatenate(kept), whole, finest, int(depth.max(initial=-1)) + 1)


def _finest(every: TileBlocks, most: int) -> int:
    """Return the finest level that makes the rows few enough, at most `most`."""
    gaps = np.diff(every.time)
    gap = float(np.median(gaps[gaps >= 0])) if len(gaps) else 0.0
    for level in range(min(most, max(0, level_for(gap))), most):
        short = every.longest < width(level)
        block = every.time[short] >> (_FINEST_BITS + _BITS * level)
        line = every.depth[short]
        blocks = np.count_nonzero((np.diff(block) != 0) | (np.diff(line) != 0)) + 1
        if blocks + np.count_nonzero(~short) <= len(every) // _REDUCTION:
            return level
    return most
