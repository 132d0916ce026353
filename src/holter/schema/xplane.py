"""Reads XPlane, the format of traces of JAX and TensorFlow: planes of a host or a device, and their lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from holter.schema.protobuf import content, fields, signed, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.schema.protobuf import Value

# Numbers of fields in xplane.proto of OpenXLA.
PLANES, HOSTS = 1, 4
_PLANE_ID, _PLANE_NAME, _LINES, _EVENT_NAMES, _STAT_NAMES, _PLANE_STATS = 1, 2, 3, 4, 5, 6
_LINE_ID, _LINE_NAME, _LINE_TIME, _EVENTS, _DISPLAY_ID, _DISPLAY_NAME = 1, 2, 3, 4, 10, 11
_EVENT, _OFFSET_PS, _DURATION_PS, _STATS = 1, 2, 3, 4
_STAT, _UINT, _INT, _STRING, _REFERENCE = 1, 3, 4, 5, 7

_DEVICE = re.compile(r"/device:(?:GPU|TPU|CUSTOM)[^:]*:(\d{1,9})(?!\d)")
_BEGAN = "profile_start_time"
RELATIVE = 10**15
"""Times before this one, ns, are since the begin of the trace: as time of day they would be of January 1970."""
STREAM = re.compile(r"Stream #?(\d{1,9})(?!\d)")
"""Name of a line that is a stream of a GPU."""
COPY = re.compile(r"memcpy|memset", re.IGNORECASE)
SIZE = re.compile(r"(?:num_bytes|size):(\d+)")


class Event(NamedTuple):
    """One event of a line; times in ns."""

    name: str
    time: int
    duration: int
    stats: dict[str, int | str]


class Line:
    """One line of a plane: a thread of the host, a stream or another row of a device."""

    def __init__(self, plane: Plane, data: memoryview) -> None:
        line = dict(fields(data))
        self._plane, self._data = plane, data
        self.name = text(line.get(_DISPLAY_NAME, 0)) or text(line.get(_LINE_NAME, 0))
        self.number = signed(line.get(_DISPLAY_ID, 0)) or signed(line.get(_LINE_ID, 0))
        self.start = signed(line.get(_LINE_TIME, 0))

    def events(self) -> Iterator[Event]:
        """Yield the events of the line. Raises `BadMessageError`."""
        names = self._plane.event_names
        for number, value in fields(self._data):
            if number != _EVENTS:
                continue
            parts = list(fields(content(value)))
            stats = dict(self._plane.stat(content(part)) for own, part in parts if own == _STATS)
            event = dict(parts)
            time = self.start + round(signed(event.get(_OFFSET_PS, 0)) / 1000)
            duration = max(0, round(signed(event.get(_DURATION_PS, 0)) / 1000))
            yield Event(names.get(signed(event.get(_EVENT, 0)), ""), time, duration, stats)


class Plane:
    """One plane: the host, or a device. Its names come behind its events, so it is gone through twice."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self.event_names: dict[int, str] = {}
        self._stat_names: dict[int, str] = {}
        self.name = ""
        self.id = 0
        stats: list[Value] = []
        for number, value in fields(data):
            if number == _PLANE_NAME:
                self.name = text(value)
            elif number == _PLANE_ID:
                self.id = signed(value)
            elif number == _PLANE_STATS:
                stats.append(value)
            elif number in (_EVENT_NAMES, _STAT_NAMES):
                key, name = _entry(content(value))
                (self.event_names if number == _EVENT_NAMES else self._stat_names)[key] = name
        found = _DEVICE.search(self.name)
        self.device = None if found is None else int(found[1])
        """Number of the device; None of a host."""
        began = dict(self.stat(content(one)) for one in stats).get(_BEGAN)
        self.began = began if isinstance(began, int) else 0
        """When the trace began, ns since 1970, if this plane says so; 0 if not."""

    def lines(self) -> Iterator[memoryview]:
        """Yield the bytes of each line; a damaged one costs itself."""
        for number, value in fields(self._data):
            if number == _LINES:
                yield content(value)

    def stat(self, data: memoryview) -> tuple[str, int | str]:
        """Return name and value of one fact of an event."""
        stat = dict(fields(data))
        name = self._stat_names.get(signed(stat.get(_STAT, 0)), "")
        if _STRING in stat:
            return name, text(stat[_STRING])
        if _REFERENCE in stat:
            return name, self._stat_names.get(signed(stat[_REFERENCE]), "")
        return name, signed(stat.get(_UINT, stat.get(_INT, 0)))


def _entry(data: memoryview) -> tuple[int, str]:
    """Return key and name of an entry of a map of names."""
    entry = dict(fields(data))
    value = dict(fields(content(entry.get(2, 0))))
    return signed(entry.get(1, 0)), text(value.get(4, 0)) or text(value.get(2, 0))
