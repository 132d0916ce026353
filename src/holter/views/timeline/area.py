"""Sums the events of some lanes in a range of time, by name: what an area of a timeline consists of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holter.views.timeline.reading import SOURCES, rows, wanted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holter.views.timeline.lanes import Timeline
    from holter.views.timeline.reading import Lane


_NUMBERED = r"(\w)#\d+$"
"""The number of a step in the name of its range, as `ProfilerStep#12`: all steps are one entry."""


@dataclass(frozen=True, slots=True)
class AreaEntry:
    """The events of one kind and name in an area."""

    kind: str
    """The kind of their lanes, such as thread, stream or phases."""
    name: str
    count: int
    """Events that overlap the area."""
    total_ns: int
    """Their time inside of the area; events within each other count each."""
    mean_ns: float
    """Mean duration of the whole events."""


def area(
    timeline: Timeline, lanes: Sequence[Lane], start_ns: int, end_ns: int, *, limit: int
) -> tuple[list[AreaEntry], int]:
    """Return up to `limit` entries of an area, those with the most time first, and the number of all.

    Args:
        timeline: An open timeline.
        lanes: The lanes that the area covers.
        start_ns: Begin of the area, ns since the epoch.
        end_ns: End of the area, exclusive.
        limit: The most entries to return.
    """
    kinds = {lane.kind for lane in lanes}
    terms = " UNION ALL ".join(
        f"SELECT '{s.kind}' AS kind, regexp_replace({s.name}, '{_NUMBERED}', '\\1') AS name, "  # noqa: S608
        f"time, duration FROM {s.table} "
        f"JOIN wanted ON lane_kind = '{s.kind}' AND lane_node = node AND lane_rank = rank "
        f"AND lane_device = {s.device} AND lane_track = {s.track} "
        f"WHERE {s.where} AND time < {int(end_ns)} AND time + duration > {int(start_ns)}"
        for s in SOURCES
        if s.kind in kinds
    )
    if not terms:
        return [], 0
    inside = f"least(time + duration, {int(end_ns)}) - greatest(time, {int(start_ns)})"
    query = (
        f"SELECT kind, name, count(*) AS n, sum({inside})::BIGINT AS total, avg(duration) AS mean, "  # noqa: S608
        f"count(*) OVER () AS entries FROM ({terms}) GROUP BY kind, name "
        f"ORDER BY total DESC, kind, name LIMIT {int(limit)}"
    )
    found = list(rows(timeline.reading.ask(query, wanted=wanted(lanes))))
    entries = [
        AreaEntry(kind, name, count, total, mean) for kind, name, count, total, mean, _entries in found
    ]
    return entries, int(found[0][-1]) if found else 0
