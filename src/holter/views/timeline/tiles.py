"""Computes the tiles of a job's timeline once, and keeps them in the user's cache or in memory."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.timeline.tiles import build, coarsest_finest, top_level
from holter.store import cache
from holter.store.job import JobFolder
from holter.store.trial import Trial
from holter.store.writer import Writer
from holter.views.timeline.reading import Lane, rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holter.store.parquet.columns import Columns
    from holter.store.place import LocalPlace
    from holter.views.timeline.reading import Arrays, EventTables

IN_MEMORY = 300_000
"""The tiles of a job with no more events are computed when it is opened, and not kept in the cache."""
_AT_ONCE = 1_000_000
"""Events that are in memory at once while tiles are computed, unless one lane has more."""


def prepare(reading: EventTables, in_memory: int = IN_MEMORY) -> list[Lane]:
    """Prepare the tiles of a job, and return its lanes.

    Tiles in the user's cache are used while they cover all events; otherwise they are computed anew. The
    tiles of up to `in_memory` events stay in memory, and so do all tiles where there is no cache. Raises
    `OSError` if files disappear meanwhile.
    """
    events = reading.counted()
    lanes = _cached(reading, cache.entry(reading.trial.folder))
    if sum(lane.events for lane in lanes) == events:
        return lanes
    lanes = reading.lanes()
    if events > in_memory:
        place = cache.entry(reading.trial.folder, make=True)
        if place is not None and _store(reading, place, lanes, events):
            return stored(reading)
    return _keep(reading, lanes)


def _cached(reading: EventTables, place: LocalPlace | None) -> list[Lane]:
    """Read the tiles of a cache entry from now on, and return their lanes."""
    if place is not None:
        reading.use_tiles(Trial(_folder(reading, place)))
    return stored(reading)


def _folder(reading: EventTables, place: LocalPlace) -> JobFolder:
    return JobFolder(place, reading.trial.folder.name)


def stored(reading: EventTables) -> list[Lane]:
    """Return the lanes of complete tiles; empty when tiles are missing or incomplete."""
    query = (
        "SELECT node, kind, rank, device, track, count, time, time + duration AS stop, depth, level "
        "FROM tiles WHERE level < 0 ORDER BY ALL"
    )
    found = reading.ask(query)
    found["level"] = -1 - found["level"]
    return [Lane(*row) for row in rows(found)]


def top_of(lanes: Sequence[Lane]) -> int:
    """Return the coarsest level of a job's tiles."""
    if not lanes:
        return 0
    return top_level(max(lane.end for lane in lanes) - min(lane.start for lane in lanes))


def _store(reading: EventTables, place: LocalPlace, lanes: Sequence[Lane], events: int) -> bool:
    """Compute tiles into the cache; the whole lanes come last and mark the tiles as complete."""
    folder, names = _folder(reading, place), reading.names.tolist()
    try:
        with folder.place.lock("tiles"):
            if sum(lane.events for lane in _cached(reading, place)) == events:
                return True  # another process was faster
            for entry in folder.place.files("tiles"):
                folder.place.delete(entry.key)
            for node in {lane.node for lane in lanes}:
                writer = Writer(folder, node)
                done: list[Lane] = []
                for some, columns in _computed(reading, [lane for lane in lanes if lane.node == node]):
                    texts = {"name": names, "kind": [lane.kind for lane in some]}
                    writer.append("tiles", {**columns, **{key: (columns[key], texts[key]) for key in texts}})
                    done += some
                writer.flush()
                writer.append("tiles", _whole(done))
                if not writer.close() or writer.dropped:
                    return False
            return sum(lane.events for lane in _cached(reading, place)) == events
    except OSError:
        return False


def _keep(reading: EventTables, lanes: Sequence[Lane]) -> list[Lane]:
    """Compute tiles into memory."""
    done: list[Lane] = []
    parts: list[Arrays] = []
    for some, columns in _computed(reading, lanes):
        nodes, kinds = (np.array([getattr(lane, of) for lane in some], object) for of in ("node", "kind"))
        of = columns["kind"]
        parts.append(
            {**columns, "name": reading.names[columns["name"]], "kind": kinds[of], "node": nodes[of]}
        )
        done += some
    if parts:
        reading.replace("tiles", {name: np.concatenate([p[name] for p in parts]) for name in parts[0]})
    return done


def _computed(reading: EventTables, lanes: Sequence[Lane]) -> Iterator[tuple[list[Lane], Arrays]]:
    """Yield some lanes at a time, completed, with the columns of their tiles.

    `name` is a place in the names of the reading, `kind` a place in the lanes.
    """
    top, finest = top_of(lanes), coarsest_finest(reading.events_per_s())
    for some in _groups(lanes):
        found = reading.events(some)
        assert found is not None  # noqa: S101 - no limit was given
        by_lane = np.argsort(found["lane"], kind="stable")
        edges = np.searchsorted(found["lane"][by_lane], np.arange(len(some) + 1))
        built = []
        for begin, end in pairwise(edges.tolist()):
            mine = by_lane[begin:end]
            time, duration, name = (found[column][mine] for column in ("time", "duration", "name"))
            built.append(build(time, duration, name, top=top, finest=finest))
        which = np.repeat(np.arange(len(some)), [len(lane.rows) for lane in built])
        columns: Arrays = {
            field: np.array([getattr(lane, field) for lane in some])[which]
            for field in ("rank", "device", "track")
        }
        for field in ("time", "duration", "depth", "count", "busy", "name"):
            columns[field] = np.concatenate([getattr(lane.rows, field) for lane in built])
        columns["level"] = np.concatenate([lane.level for lane in built])
        columns["kind"] = which
        yield [replace(a, lines=b.lines, finest=b.finest) for a, b in zip(some, built, strict=True)], columns


def _groups(lanes: Sequence[Lane]) -> Iterator[list[Lane]]:
    group: list[Lane] = []
    for lane in lanes:
        if group and sum(member.events for member in group) + lane.events > _AT_ONCE:
            yield group
            group = []
        group.append(lane)
    if group:
        yield group


def _whole(lanes: Sequence[Lane]) -> Columns:
    return {
        "time": [lane.start for lane in lanes],
        "duration": [lane.end - lane.start for lane in lanes],
        "rank": [lane.rank for lane in lanes],
        "kind": [lane.kind for lane in lanes],
        "device": [lane.device for lane in lanes],
        "track": [lane.track for lane in lanes],
        "depth": [lane.lines for lane in lanes],
        "level": [-1 - lane.finest for lane in lanes],
        "count": [lane.events for lane in lanes],
    }
