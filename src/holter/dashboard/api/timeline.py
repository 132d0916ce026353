"""The timeline of a job: its tree of rows, tiles of a time range, details of an event, and search.

All times are whole ns since the job's start, which is `origin_ns`. Lanes, series and names go by numbers,
which belong to `version`: when the job has grown, ask for the tree again.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.routing import Route

from holter.dashboard.answers import MOST_OFFSET, MOST_POINTS, RefusalError, which, whole
from holter.dashboard.api import JOB
from holter.pages.data.encoding import encoded
from holter.pages.data.timeline import curve_bytes, head_bytes, step_bytes
from holter.pages.timelines import TIMELINES
from holter.views.timeline.area import area
from holter.views.timeline.details import (
    TimelineEvent,
    connections,
    depth,
    detail,
    following,
    nearest,
    search,
)
from holter.views.timeline.packing import packed
from holter.views.wording import plain_event

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.requests import Request

    from holter.dashboard.stores import Stores
    from holter.pages.timelines import Opened

    Asked = Mapping[str, str]

MOST_LANES = 128
MOST_NAMES = 200
MOST_LETTERS = 200
_MOST_PLACED = 8
"""Arrows whose other end is located; locating more takes too long."""
_EXACT = 2**53
"""JSON numbers beyond this are not exact; such times are known to 256 ns."""
_LAST = 2**62
_AT_ONCE = 2
"""Tiles that are computed at the same time; closed connections are skipped."""


def routes(stores: Stores) -> list[Route]:
    """Return the routes of timelines."""
    turn = asyncio.Semaphore(_AT_ONCE)

    def route(path: str, made: Callable[[Opened, Asked], bytes], kind: str) -> Route:
        async def answer(request: Request) -> Response:
            async with turn:
                if await request.is_disconnected():
                    return Response(status_code=499)
                folder = await run_in_threadpool(stores.folder, *which(request))
                asked = dict(request.query_params)
                body = await run_in_threadpool(TIMELINES.ask, folder, lambda opened: made(opened, asked))
            # Packed numbers hardly shrink, and packing them takes longer than a picture may.
            return Response(
                body, media_type=kind, headers={} if kind == _JSON else {"content-encoding": "identity"}
            )

        return Route(f"{JOB}/timeline{path}", answer)

    return [
        route("", lambda opened, _: head_bytes(opened, opened.again_s), _JSON),
        route("/tiles", _tiles, "application/octet-stream"),
        route("/curves", _curves, _JSON),
        route(
            "/steps", lambda o, asked: step_bytes(o, *_range(o, asked), whole(asked, "most", 1, 1000)), _JSON
        ),
        route("/event", _event, _JSON),
        route("/area", _area, _JSON),
        route("/search", _search, _JSON),
        route("/following", _following, _JSON),
    ]


_JSON = "application/json"


def _tiles(opened: Opened, asked: Asked) -> bytes:
    numbers = _numbers(asked, "lanes", len(opened.timeline.lanes), MOST_LANES)
    lanes = [opened.timeline.lanes[number] for number in numbers]
    start, end = _range(opened, asked)
    picture = opened.timeline.picture(start, end, pixels=whole(asked, "pixels", 1, MOST_POINTS), lanes=lanes)
    return packed(picture, opened.origin_ns, opened.numbers, opened.version)


def _curves(opened: Opened, asked: Asked) -> bytes:
    numbers = _numbers(asked, "series", len(opened.series), MOST_LANES)
    start, end = _range(opened, asked)
    return curve_bytes(opened, numbers, start, end, whole(asked, "pixels", 1, MOST_POINTS))


def _event(opened: Opened, asked: Asked) -> bytes:
    _of_this(opened, asked)
    timeline = opened.timeline
    lane = timeline.lanes[whole(asked, "lane", 0, len(timeline.lanes) - 1)]
    begin = whole(asked, "time_ns", -_LAST, _LAST)
    slack = _slack(begin)
    begin += opened.origin_ns
    name = str(timeline.reading.names[whole(asked, "name", 0, len(timeline.reading.names) - 1)])
    event = TimelineEvent(lane, begin, whole(asked, "duration_ns", 0, _LAST), name)
    if slack:
        event = nearest(timeline, event, max(slack, _slack(event.duration)))
    row = {key: _safe(value) for key, value in detail(timeline, event).items()}
    arrows = [
        {"kind": one.kind, "earlier": one.earlier, **_told(opened, one.event, place < _MOST_PLACED)}
        for place, one in enumerate(connections(timeline, event))
    ]
    return encoded({"schema": 1, "row": {**row, "name": name}, "connections": arrows})


def _area(opened: Opened, asked: Asked) -> bytes:
    _of_this(opened, asked)
    numbers = _numbers(asked, "lanes", len(opened.timeline.lanes), MOST_LANES)
    lanes = [opened.timeline.lanes[number] for number in numbers]
    start, end = _range(opened, asked)
    found, count = area(opened.timeline, lanes, start, end, limit=whole(asked, "limit", 1, MOST_NAMES))
    listed = [
        {
            "kind": one.kind,
            "name": plain_event(one.name)[:1000],
            "whole_name": one.name[:1000],
            "count": one.count,
            "total_ns": one.total_ns,
            "mean_ns": one.mean_ns,
        }
        for one in found
    ]
    return encoded({"schema": 1, "entries": listed, "entries_in_all": count})


def _search(opened: Opened, asked: Asked) -> bytes:
    text = asked.get("text", "")
    if not 1 <= len(text) <= MOST_LETTERS:
        raise RefusalError(f"text has {len(text)} letters; valid: 1 to {MOST_LETTERS}")
    found = search(opened.timeline, text, rank=_rank(asked), limit=whole(asked, "limit", 1, MOST_NAMES))
    listed = [
        {
            "code": _code(opened, one.name),
            "name": one.name[:1000],
            "count": one.count,
            "total_ns": one.total_ns,
        }
        for one in found
    ]
    return encoded({"schema": 1, "found": listed})


def _following(opened: Opened, asked: Asked) -> bytes:
    _of_this(opened, asked)
    names = opened.timeline.reading.names
    chosen = [str(names[code]) for code in _numbers(asked, "names", len(names), MOST_NAMES)]
    after, backward = whole(asked, "after_ns", -_LAST, _LAST), asked.get("backward") == "1"
    after += opened.origin_ns + _slack(after) * (-1 if backward else 1)  # the same one shall not come again
    event = following(opened.timeline, chosen, after, backward=backward, rank=_rank(asked))
    return encoded({"schema": 1, "event": None if event is None else _told(opened, event)})


def _rank(asked: Asked) -> int | None:
    return whole(asked, "rank", 0, MOST_OFFSET) if asked.get("rank") else None


def _told(opened: Opened, event: TimelineEvent, placed: bool = True) -> dict[str, Any]:
    """Return an event as a picture has it; finding out on which line it lies takes a picture."""
    lanes = {lane.id: number for lane, number in opened.numbers.items()}
    return {
        "lane": lanes[event.lane.id],
        "depth": depth(opened.timeline, event) if placed else 0,
        "time": event.time - opened.origin_ns,
        "duration": event.duration,
        "count": 1,
        "busy": event.duration,
        "code": _code(opened, event.name),
        "name": event.name[:1000],
    }


def _code(opened: Opened, name: str) -> int:
    return int(np.searchsorted(opened.timeline.reading.names, name))


def _safe(value: Any) -> Any:
    return str(value) if isinstance(value, int) and abs(value) > _EXACT else value


def _of_this(opened: Opened, asked: Asked) -> None:
    if asked.get("version") != opened.version:
        raise RefusalError("the job has grown since: load the timeline again", 409)


def _slack(number: int) -> int:
    """Return the largest rounding error of a number that passed through a browser."""
    return 0 if abs(number) <= _EXACT else math.ceil(math.ulp(number))


def _range(opened: Opened, asked: Asked) -> tuple[int, int]:
    """Return the range of time that is asked for, ns since the epoch."""
    start, end = (whole(asked, key, -_LAST, _LAST) for key in ("from_ns", "to_ns"))
    if start >= end:
        raise RefusalError(f"from_ns={start} to_ns={end} is no range of time")
    return start + opened.origin_ns, end + opened.origin_ns


def _numbers(asked: Asked, key: str, count: int, most: int) -> list[int]:
    """Return numbers given as `0-3,7`."""
    found: list[int] = []
    for part in asked.get(key, "").split(","):
        first, _, last = part.partition("-")
        low = whole({key: first}, key, 0, count - 1)
        high = whole({key: last}, key, low, count - 1) if last else low
        if high - low + 1 + len(found) > most:
            raise RefusalError(f"{key} names too many; valid: up to {most} at once")
        found += range(low, high + 1)
    return found
