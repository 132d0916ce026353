"""The timeline of a job: its lanes, and the events of a time range at the resolution of the screen."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.timeline.tiles import (
    ALL_KEPT,
    TileBlocks,
    depths,
    events,
    level_for,
    order,
    simplified,
    width,
)
from holter.views.timeline.levels import COLUMNS, Levels
from holter.views.timeline.reading import EventTables, Lane
from holter.views.timeline.tiles import IN_MEMORY, prepare, top_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from holter.store.trial import Trial
    from holter.views.timeline.reading import Arrays

MOST_EVENTS = 200_000
"""Where more events than this would have to be read for a picture, the finest tiles are shown instead."""


@dataclass(frozen=True, slots=True)
class Strip:
    """What is seen of one lane: blocks in no order; each is one event, or several merged."""

    lane: Lane
    level: int
    """Level of detail, 0 for blocks finer than of any; -1: every event that is seen is there by itself."""
    time: NDArray[np.int64]
    """Begins, ns since the epoch."""
    duration: NDArray[np.int64]
    """ns, to the end of the last event of the block."""
    depth: NDArray[np.int16]
    """Line, from 0 at the top."""
    name: NDArray[np.int32]
    """Place in the picture's names; of several events, that of the longest."""
    count: NDArray[np.int64]
    """Events in the block."""
    busy: NDArray[np.int64]
    """Sum of their durations, ns."""


@dataclass(frozen=True, slots=True)
class TimelineSlice:
    """A time range of some lanes, at the resolution of the screen."""

    start_ns: int
    end_ns: int
    strips: list[Strip]
    names: list[str]
    codes: NDArray[np.int32]
    """For each name its code, by which the timeline knows it in every picture."""


class Timeline:
    """The timeline of one job, as its tables were when it was opened; of a running one, open it again."""

    def __init__(self, trial: Trial, *, in_memory: int = IN_MEMORY) -> None:
        """Open a job; missing tiles are computed, which takes seconds for millions of events.

        Tiles of up to `in_memory` events are not stored, but computed each time. Raises `OSError` if files
        disappear meanwhile, as in a compaction.
        """
        self.reading = EventTables(trial)
        self.lanes = prepare(self.reading, in_memory)
        """Its lanes."""
        self.start_ns = min((lane.start for lane in self.lanes), default=0)
        """Begin of its first event."""
        self.end_ns = max((lane.end + 1 for lane in self.lanes), default=0)
        """Behind its last event, which may be an instant."""
        self._places = {lane: n for n, lane in enumerate(self.lanes)}
        self._levels = Levels(self.reading, self.lanes, top_of(self.lanes))

    def lane(self, name: str) -> Lane:
        """Return a lane by its `id`; raises `KeyError` if there is no such lane."""
        for lane in self.lanes:
            if lane.id == name:
                return lane
        raise KeyError(
            f"no lane {name!r}; there are {len(self.lanes)}, as {self.lanes[0].id!r}" if self.lanes else name
        )

    def picture(
        self,
        start_ns: int | None = None,
        end_ns: int | None = None,
        *,
        pixels: int = 1000,
        lanes: Iterable[Lane] | None = None,
    ) -> TimelineSlice:
        """Return the events of lanes in a time range, by default of all lanes in the whole job.

        Each event that is as long as a pixel, about, is in it; shorter neighbors are merged into one block.
        Events that reach into the range are in it whole. An empty range or fewer than one pixel raises
        `ValueError`, files that are gone since the timeline was opened raise `OSError`.
        """
        start = self.start_ns if start_ns is None else start_ns
        end = self.end_ns if end_ns is None else end_ns
        chosen = self.lanes if lanes is None else list(lanes)
        if not chosen:
            return TimelineSlice(start, end, [], [], np.empty(0, np.int32))
        if start >= end:
            raise ValueError(f"the range from {start} to {end} is empty")
        if pixels < 1:
            raise ValueError(f"pixels is {pixels}; valid: 1 or more")
        level = min(level_for((end - start) / pixels), self._levels.top)
        # Of a lane of few events the tiles have each by itself.
        near = [lane for lane in chosen if lane.finest > level and lane.events > ALL_KEPT]
        strips = self._near(near, start, end, level) if near else []
        if strips is None:
            near, strips = [], []
        nearby = set(near)
        strips += self._far([lane for lane in chosen if lane not in nearby], start, end, level)
        codes = np.unique(np.concatenate([strip.name for strip in strips]))
        for strip in strips:
            strip.name[:] = np.searchsorted(codes, strip.name)
        place = {lane: n for n, lane in enumerate(chosen)}
        strips.sort(key=lambda strip: place[strip.lane])
        return TimelineSlice(start, end, strips, self.reading.names[codes].tolist(), codes)

    def warm(self) -> None:
        """Load what pictures are made of, as far as memory is spent on it, so that none has to wait."""
        self._levels.warm()

    def _far(self, lanes: Sequence[Lane], start: int, end: int, level: int) -> list[Strip]:
        """Take lanes from the tiles, at this level, or at their finest when that is coarser."""
        found = []
        for at in sorted({max(level, lane.finest) for lane in lanes}):
            some = [lane for lane in lanes if max(level, lane.finest) == at]
            parts = [self._levels.merged(at, start, end), *self._levels.kept(at, start, end)]
            found += [
                _strip(lane, at, rows) for lane, rows in zip(some, self._split(parts, some), strict=True)
            ]
        return found

    def _near(self, lanes: Sequence[Lane], start: int, end: int, level: int) -> list[Strip] | None:
        """Take lanes from the events themselves; None when they are too many.

        Events of at least a block of a lane's finest level are in its tiles. So of the tables only what
        begins a block before the range has to be read, and another block before that to know how deep it is
        nested.
        """
        finest = np.array([width(lane.finest) for lane in lanes])
        first = start - 2 * int(finest.max())
        found = self.reading.events(lanes, start_ns=first, end_ns=end, limit=MOST_EVENTS)
        if found is None:
            return None
        short = np.flatnonzero(found["duration"] < finest[found["lane"]])
        by_lane = short[np.argsort(found["lane"][short], kind="stable")]
        edges = np.searchsorted(found["lane"][by_lane], np.arange(len(lanes) + 1)).tolist()
        parts = self._levels.kept(min(lane.finest for lane in lanes), first, end)
        strips = []
        for place, (lane, long) in enumerate(zip(lanes, self._split(parts, lanes), strict=True)):
            mine = by_lane[edges[place] : edges[place + 1]]
            begin, duration, name = (found[column][mine] for column in ("time", "duration", "name"))
            rows = _nested(begin, duration, name, long.where(long.duration >= finest[place]))
            rows = rows.where(rows.time + np.maximum(rows.duration, 1) > start)
            drawn = simplified(rows, level)
            strips.append(_strip(lane, -1 if len(drawn) == len(rows) else max(level, 0), drawn))
        return strips

    def _split(self, parts: Sequence[Arrays], lanes: Sequence[Lane]) -> list[TileBlocks]:
        """Return the rows of some lanes out of those of all."""
        place = np.full(len(self.lanes), -1)
        place[[self._places[lane] for lane in lanes]] = np.arange(len(lanes))
        mine = [place[part["lane"]] for part in parts]
        chosen = [np.flatnonzero(of >= 0) for of in mine]
        of = np.concatenate([m[c] for m, c in zip(mine, chosen, strict=True)])
        sequence = np.argsort(of, kind="stable")
        edges = np.searchsorted(of[sequence], np.arange(len(lanes) + 1)).tolist()
        time, duration, depth, name, count, busy = (
            np.concatenate([part[column][c] for part, c in zip(parts, chosen, strict=True)])[sequence]
            for column in COLUMNS[1:]
        )
        # Which event of a block was the longest matters only where it is one by itself.
        every = TileBlocks(time, duration, depth, name, count, busy, duration)
        return [every.where(slice(a, b)) for a, b in pairwise(edges)]


def _nested(
    begin: NDArray[np.int64], duration: NDArray[np.int64], name: NDArray[np.int32], long: TileBlocks
) -> TileBlocks:
    """Put short events and the long ones around them together; how deep the long ones are is known."""
    times = np.concatenate([begin, long.time])
    lasted = np.concatenate([duration, long.duration])
    sequence = order(times, lasted)
    depth = np.empty(len(times), np.int16)
    depth[sequence] = depths(times[sequence], lasted[sequence])
    depth[len(begin) :] = long.depth
    return events(times, lasted, np.concatenate([name, long.name]), depth)


def _strip(lane: Lane, level: int, rows: TileBlocks) -> Strip:
    return Strip(lane, level, rows.time, rows.duration, rows.depth, rows.name.copy(), rows.count, rows.busy)
