"""Finds the details of one event, its connected events, and events by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holter.store.parquet import queries as parquet
from holter.views.timeline.reading import SOURCES, Lane, rows, wanted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holter.views.document.types.values import TableRow
    from holter.views.timeline.lanes import Timeline
    from holter.views.timeline.reading import LaneSource

_DEVICE = ("kernels", "memory_operations")
_MOST_CONNECTIONS = 100


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """One event of a lane."""

    lane: Lane
    time: int
    """Begin, ns since the epoch."""
    duration: int
    """ns."""
    name: str


@dataclass(frozen=True, slots=True)
class Connection:
    """An arrow between the event and another one, which `earlier` says the direction of."""

    kind: str
    """launch, or what a flow is: forward_backward, ..."""
    event: TimelineEvent
    earlier: bool
    """Whether the arrow leads from it to the event asked for."""


@dataclass(frozen=True, slots=True)
class NameMatch:
    """A name that events have, and the first of them."""

    name: str
    count: int
    total_ns: int
    first: TimelineEvent


def detail(timeline: Timeline, event: TimelineEvent) -> TableRow:
    """Return all columns of the row of an event, and `table`; an unknown event raises `KeyError`."""
    for source in _of(event.lane):
        query = (
            f"SELECT * FROM {source.table} WHERE {_at(source, event.lane)} AND time = {event.time} "  # noqa: S608
            f"AND duration = {event.duration} AND {source.name} = {parquet.literal(event.name)} LIMIT 1"
        )
        found = timeline.reading.ask(query)
        for values in rows(found):
            return {"table": source.table, **dict(zip(found, values, strict=True))}
    raise KeyError(
        f"no event {event.name!r} of lane {event.lane.id} at {event.time} lasts {event.duration} ns"
    )


def nearest(timeline: Timeline, event: TimelineEvent, slack_ns: int) -> TimelineEvent:
    """Return the event of a lane and name whose begin and duration differ by at most `slack_ns`.

    Without such an event, it raises `KeyError`.
    """
    for source in _of(event.lane):
        query = (
            f"SELECT time, duration FROM {source.table} WHERE {_at(source, event.lane)} "  # noqa: S608
            f"AND {source.name} = {parquet.literal(event.name)} "
            f"AND time BETWEEN {event.time - slack_ns} AND {event.time + slack_ns} "
            f"AND abs(duration - {event.duration}) <= {slack_ns} ORDER BY abs(time - {event.time}) LIMIT 1"
        )
        for begin, duration in rows(timeline.reading.ask(query)):
            return TimelineEvent(event.lane, begin, duration, event.name)
    raise KeyError(f"no event {event.name!r} of lane {event.lane.id} near {event.time}")


def connections(timeline: Timeline, event: TimelineEvent) -> list[Connection]:
    """Return connected events: a launch and its work, or the ends of arrows of the thread.

    Later traces of a process use correlation numbers again. So the work of a launch is the next with its
    number, and the launch of some work is the last before it. An unknown event raises `KeyError`.
    """
    row = detail(timeline, event)
    if row["table"] in _DEVICE or row["table"] == "launches":
        return list(_launched(timeline, row))
    return list(_arrows(timeline, event))


def search(timeline: Timeline, words: str, *, rank: int | None = None, limit: int = 100) -> list[NameMatch]:
    """Find up to `limit` names of events, of one rank or all, that hold a text in any case.

    Those that took longest come first.
    """
    needle, of_rank = parquet.literal(words.lower()), _of_rank(rank)
    terms = " UNION ALL ".join(
        f"SELECT {s.name} AS name, duration, time, node, '{s.kind}' AS kind, rank, {s.device} AS device, "  # noqa: S608
        f"{s.track} AS track FROM {s.table} WHERE {s.where} AND contains(lower({s.name}), {needle}){of_rank}"
        for s in SOURCES
    )
    query = (
        "SELECT name, count(*) AS n, sum(duration)::BIGINT AS total, min(time) AS time, "  # noqa: S608
        "arg_min({'duration': duration, 'node': node, 'kind': kind, 'rank': rank, 'device': device, "
        "'track': track}, time) AS first "
        f"FROM ({terms}) GROUP BY name ORDER BY total DESC, name LIMIT {int(limit)}"
    )
    lanes = {lane.id: lane for lane in timeline.lanes}
    found = []
    for name, count, total, time, first in rows(timeline.reading.ask(query)):
        duration = first.pop("duration")
        found.append(
            NameMatch(name, count, total, TimelineEvent(lanes[Lane(**first).id], time, duration, name))
        )
    return found


def following(
    timeline: Timeline,
    names: str | Sequence[str],
    after_ns: int,
    *,
    backward: bool = False,
    rank: int | None = None,
) -> TimelineEvent | None:
    """Return the next event with one of some names after a time, or the last before it; None without any.

    Only events of `rank` count, if it is given.
    """
    compare, order = ("<", "DESC") if backward else (">", "")
    listed = ", ".join(map(parquet.literal, [names] if isinstance(names, str) else names))
    condition = f"{{name}} IN ({listed}) AND time {compare} {after_ns}{_of_rank(rank)}"
    return next(_events(timeline, condition, order), None)


def _of_rank(rank: int | None) -> str:
    return "" if rank is None else f" AND rank = {rank}"


def depth(timeline: Timeline, event: TimelineEvent) -> int:
    """Return the line of its lane that an event lies on in pictures; 0 when none shows it by itself."""
    end = event.time + max(event.duration, 1)
    (strip,) = timeline.picture(event.time, end, lanes=[timeline.lane(event.lane.id)]).strips
    found = strip.depth[(strip.time == event.time) & (strip.duration == event.duration) & (strip.count == 1)]
    return int(found[0]) if len(found) else 0


def _of(lane: Lane) -> Iterator[LaneSource]:
    return (source for source in SOURCES if source.kind == lane.kind)


def _at(source: LaneSource, lane: Lane) -> str:
    place = f"node = {parquet.literal(lane.node)} AND rank = {lane.rank} AND {source.track} = {lane.track}"
    return f"{source.where} AND {place} AND {source.device} = {lane.device}"


def _launched(timeline: Timeline, row: TableRow) -> Iterator[Connection]:
    if row["correlation"] <= 0:
        return
    same = f"correlation = {row['correlation']} AND rank = {row['rank']}"
    same += f" AND node = {parquet.literal(row['node'])}"
    if row["table"] == "launches":
        for event in _events(timeline, f"{same} AND time >= {row['time']}", "", tables=_DEVICE):
            yield Connection("launch", event, earlier=False)
            return
    for event in _events(timeline, f"{same} AND time <= {row['time']}", "DESC", tables=("launches",)):
        yield Connection("launch", event, earlier=True)
        return


def _arrows(timeline: Timeline, event: TimelineEvent) -> Iterator[Connection]:
    lane = event.lane
    here = f"node = {parquet.literal(lane.node)} AND rank = {lane.rank}"
    first, last = event.time, event.time + max(event.duration, 1)
    query = (
        "SELECT kind, time AS begin, time + duration AS until, thread, target FROM flows "  # noqa: S608
        f"WHERE {here} AND ((thread = {lane.track} AND time >= {first} AND time < {last}) OR "
        f"(target = {lane.track} AND time + duration >= {first} AND time + duration < {last})) "
        f"ORDER BY time LIMIT {_MOST_CONNECTIONS}"
    )
    for kind, begin, until, thread, target in rows(timeline.reading.ask(query)):
        leaves = thread == lane.track and first <= begin < last
        at, track = (until, target) if leaves else (begin, thread)
        around = f"{here} AND thread = {track} AND time <= {at} AND time + duration >= {at}"
        # The innermost is meant: it begins last.
        inner = next(_events(timeline, around, "DESC, duration", tables=("operators",)), None)
        if inner is not None:
            yield Connection(kind, inner, earlier=not leaves)


def _events(
    timeline: Timeline, condition: str, order: str, *, tables: tuple[str, ...] | None = None
) -> Iterator[TimelineEvent]:
    """Yield the events for which a condition holds, by time; `{name}` in it is what they are called."""
    terms = " UNION ALL ".join(
        f"SELECT time, duration, {s.name} AS name, lane FROM {s.table} JOIN wanted ON lane_kind = '{s.kind}' "  # noqa: S608
        f"AND lane_node = node AND lane_rank = rank AND lane_device = {s.device} AND lane_track = {s.track} "
        f"WHERE {s.where} AND {condition.replace('{name}', s.name)}"
        for s in SOURCES
        if tables is None or s.table in tables
    )
    query = f"SELECT * FROM ({terms}) ORDER BY time {order} LIMIT {_MOST_CONNECTIONS}"  # noqa: S608
    for time, duration, name, lane in rows(timeline.reading.ask(query, wanted=wanted(timeline.lanes))):
        yield TimelineEvent(timeline.lanes[lane], time, duration, name)
