"""The tiles of a job's timeline: computed once, kept in the store, or in memory where that is enough."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.timeline.tiles import build, coarsest_finest, top_level
from holter.store.writer import Writer
from holter.views.timeline.reading import Lane, rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holter.views.timeline.reading import Arrays, EventTables

IN_MEMORY = 300_000
"""The tiles of a job with no more events are computed when it is opened, and not stored."""
_AT_ONCE = 1_000_000
"""Events that are in memory at once while tiles are computed, unless one lane has more."""


def prepare(reading: EventTables, in_memory: int = IN_MEMORY) -> list[Lane]:
    """Make the tiles of a job ready to be asked for, and return its lanes.

    Tiles that are stored are used while they cover all events; otherwise they are computed anew and stored.
    When the job is small, or the store cannot be written, they are kept in memory, in place of the table.

    Args:
        reading: The job's tables.
        in_memory: Tiles of no more events are kept in memory.

    Raises:
        OSError: Files went away meanwhile.
    """
    events = reading.counted()
    lanes = stored(reading)
    if sum(lane.events for lane in lanes) == events:
        return lanes
    lanes = reading.lanes()
    if events > in_memory and _store(reading, lanes, events):
        reading.refresh("tiles")
        return stored(reading)
    return _keep(reading, lanes)


def stored(reading: EventTables) -> list[Lane]:
    """Return the lanes that the tiles know; none when there are none, or their writing was not finished."""
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


def _store(reading: EventTables, lanes: Sequence[Lane], events: int) -> bool:
    """Compute tiles into the store; the whole lanes come last, and say that all is there."""
    folder = reading.trial.folder
    try:
        with folder.place.lock("tiles"):
            reading.refresh("tiles")
            if sum(lane.events for lane in stored(reading)) == events:
                return True  # somebody else was faster
            for entry in folder.place.files("tiles"):
                folder.place.delete(entry.key)
            for node in {lane.node for lane in lanes}:
                writer = Writer(folder, node)
                done: list[Lane] = []
                for some, columns in _computed(reading, [lane for lane in lanes if lane.node == node]):
                    writer.append("tiles", columns)
                    done += some
                writer.flush()
                writer.append("tiles", _whole(done))
                if not writer.close() or writer.dropped:
                    return False
    except OSError:
        return False
    return True


def _keep(reading: EventTables, lanes: Sequence[Lane]) -> list[Lane]:
    """Compute tiles into memory."""
    done: list[Lane] = []
    parts: list[Arrays] = []
    for some, columns in _computed(reading, lanes):
        nodes = np.array([lane.node for lane in some], dtype=object)
        plain = {**columns, "node": nodes[columns["kind"][0]]}
        for name in ("name", "kind"):
            codes, texts = columns[name]
            plain[name] = np.array(texts, dtype=object)[codes]
        parts.append(plain)
        done += some
    if parts:
        reading.replace("tiles", {name: np.concatenate([p[name] for p in parts]) for name in parts[0]})
    return done


def _computed(reading: EventTables, lanes: Sequence[Lane]) -> Iterator[tuple[list[Lane], dict[str, Any]]]:
    """Yield lanes, a few at a time, with what is now known of them, and the columns of their tiles."""
    top, finest = top_of(lanes), coarsest_finest(reading.events_per_s())
    names = reading.names.tolist()
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
        columns: dict[str, Any] = {
            field: np.array([getattr(lane, field) for lane in some])[which]
            for field in ("rank", "device", "track")
        }
        for field in ("time", "duration", "depth", "count", "busy", "name"):
            columns[field] = np.concatenate([getattr(lane.rows, field) for lane in built])
        columns["level"] = np.concatenate([lane.level for lane in built])
        columns["name"] = (columns["name"], names)
        columns["kind"] = (which, [lane.kind for lane in some])
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


def _whole(lanes: Sequence[Lane]) -> dict[str, Any]:
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
