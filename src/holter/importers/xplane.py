"""Import XPlane files (`.xplane.pb`) of TensorFlow and JAX: threads of the host, streams of GPUs, TPUs."""

from __future__ import annotations

import mmap
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from holter.importers.kineto import host_events
from holter.importers.kineto.device_events import copy_kind, kernels, placed
from holter.importers.report import UnreadableError
from holter.schema.protobuf import content, fields, signed, text
from holter.schema.varint import BadMessageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from holter.importers.trace import Trace

FORMAT = "xplane"

# Numbers of fields in xplane.proto of OpenXLA.
_PLANES, _HOSTS = 1, 4
_PLANE_ID, _PLANE_NAME, _LINES, _EVENT_NAMES, _STAT_NAMES = 1, 2, 3, 4, 5
_LINE_ID, _LINE_NAME, _LINE_TIME, _EVENTS, _DISPLAY_ID, _DISPLAY_NAME = 1, 2, 3, 4, 10, 11
_EVENT, _OFFSET_PS, _DURATION_PS, _STATS = 1, 2, 3, 4
_STAT, _UINT, _INT, _STRING, _REFERENCE = 1, 3, 4, 5, 7

_DEVICE = re.compile(r"/device:(?:GPU|TPU|CUSTOM)[^:]*:(\d{1,9})(?!\d)")
_STREAM = re.compile(r"Stream #?(\d{1,9})(?!\d)")
_COPY = re.compile(r"memcpy|memset", re.IGNORECASE)
_SIZE = re.compile(r"(?:num_bytes|size):(\d+)")
_RUNTIME = re.compile(r"(cuda|cu|hip|nccl)[A-Z]\w+")
_HOST = 1 << 20
"""Number of the first process of the host; below are the devices."""
_ROWS = 20_000


class _Event(NamedTuple):
    name: str
    time: int
    duration: int
    stats: dict[str, int | str]


def recognizes(path: Path) -> bool:
    """Tell by its name whether a file is an XPlane."""
    return path.name.endswith(".xplane.pb")


def read(path: Path, trace: Trace) -> None:
    """Read a file into a trace.

    Raises:
        UnreadableError: Nothing of it can be read.
        OSError: It cannot be opened.
    """
    if not path.stat().st_size:
        raise UnreadableError("it is empty")
    with path.open("rb") as file:
        # It is not closed here: what was read of it may still look at its pages.
        space = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    try:
        for number, value in fields(space):
            trace.progress(0)
            if number == _HOSTS:
                trace.facts["host"] = text(value)
            elif number == _PLANES:
                _Plane(trace, content(value)).read()
    except BadMessageError as error:
        if not trace.events:
            raise UnreadableError(f"it is no XPlane: {error}") from None
        trace.skipped[f"the rest of the file: {error}"] += 1


class _Plane:
    """One plane: the host, or a device. Its names come behind its events, so it is gone through twice."""

    def __init__(self, trace: Trace, data: memoryview) -> None:
        self._trace = trace
        self._data = data
        self._names: dict[int, str] = {}
        self._stats: dict[int, str] = {}
        self._name = ""
        self._id = 0

    def read(self) -> None:
        """Take in all lines of the plane."""
        for number, value in fields(self._data):
            if number == _PLANE_NAME:
                self._name = text(value)
            elif number == _PLANE_ID:
                self._id = signed(value)
            elif number in (_EVENT_NAMES, _STAT_NAMES):
                key, name = _entry(content(value))
                (self._names if number == _EVENT_NAMES else self._stats)[key] = name
        device = _DEVICE.search(self._name)
        self._trace.name(_HOST + self._id if device is None else int(device[1]), None, self._name, None)
        for number, value in fields(self._data):
            if number == _LINES:
                try:
                    self._line(content(value), None if device is None else int(device[1]))
                except BadMessageError as error:
                    self._trace.skipped[f"a line of {self._name}: {error}"] += 1

    def _line(self, data: memoryview, device: int | None) -> None:
        line = dict(fields(data))
        name = text(line.get(_DISPLAY_NAME, 0)) or text(line.get(_LINE_NAME, 0))
        number = signed(line.get(_DISPLAY_ID, 0)) or signed(line.get(_LINE_ID, 0))
        start = signed(line.get(_LINE_TIME, 0))
        stream = _STREAM.match(name)
        for events in self._events(data, start):
            if device is None:
                self._trace.name(_HOST + self._id, number, name, None)
                self._host(events, self._trace.threads[_HOST + self._id, number])
            elif name == "Steps":
                self._steps(events)
            elif stream is not None or (name == "XLA Ops" and "GPU" not in self._name):
                self._streams(events, device, int(stream[1]) if stream else number, name)
            else:
                self._operators(events, self._trace.threads[self._name, number], "device_annotation")
                self._trace.name(self._name, number, name, None)

    def _events(self, data: memoryview, start: int) -> Iterator[list[_Event]]:
        events: list[_Event] = []
        for number, value in fields(data):
            if number != _EVENTS:
                continue
            parts = list(fields(content(value)))
            stats = dict(self._stat(content(part)) for own, part in parts if own == _STATS)
            event = dict(parts)
            self._trace.events += 1
            time = start + round(signed(event.get(_OFFSET_PS, 0)) / 1000)
            duration = max(0, round(signed(event.get(_DURATION_PS, 0)) / 1000))
            events.append(_Event(self._names.get(signed(event.get(_EVENT, 0)), ""), time, duration, stats))
            if len(events) >= _ROWS:
                yield events
                events = []
        if events:
            yield events

    def _stat(self, data: memoryview) -> tuple[str, int | str]:
        stat = dict(fields(data))
        name = self._stats.get(signed(stat.get(_STAT, 0)), "")
        if _STRING in stat:
            return name, text(stat[_STRING])
        if _REFERENCE in stat:
            return name, self._stats.get(signed(stat[_REFERENCE]), "")
        return name, signed(stat.get(_UINT, stat.get(_INT, 0)))

    def _host(self, events: list[_Event], thread: int) -> None:
        groups: dict[str, list[_Event]] = {"launch": [], "call": [], "operator": []}
        for event in events:
            launches = event.stats.get("correlation_id")
            sort = "launch" if launches else "call" if _RUNTIME.fullmatch(event.name) else "operator"
            groups[sort].append(event)
        for sort, chosen in groups.items():
            if not chosen:
                continue
            time, duration = _times(chosen)
            threads = np.full(len(chosen), thread, np.int64)
            names, correlation = [event.name for event in chosen], _correlations(chosen)
            if sort == "launch":
                self._trace.append(
                    "launches",
                    time=time,
                    duration=duration,
                    thread=threads,
                    name=self._trace.text(names),
                    correlation=correlation,
                )
            elif sort == "call":
                host_events.calls(self._trace, self._trace.text(names), threads, time, duration, correlation)
            else:
                self._operators(chosen, thread, "operator")

    def _steps(self, events: list[_Event]) -> None:
        for event in events:
            if event.name.isdecimal() and len(event.name) < 10:
                end = event.time + event.duration
                self._trace.step(int(event.name), event.time, end, f"step {event.name}")

    def _operators(self, events: list[_Event], thread: int, kind: str) -> None:
        names = self._trace.text([event.name for event in events])
        threads = np.full(len(events), thread, np.int64)
        host_events.operator_rows(self._trace, names, threads, *_times(events), kind)

    def _streams(self, events: list[_Event], device: int, stream: int, line: str) -> None:
        trace = self._trace
        trace.name(device, stream, line, None)
        copied = [event for event in events if _COPY.search(event.name)]
        computed = [event for event in events if not _COPY.search(event.name)]
        if computed:
            columns = kernels(trace, [event.name for event in computed])
            self._on_stream("kernels", computed, device, stream, columns)
        if copied:
            details = [
                str(event.stats.get("memcpy_details", event.stats.get("memset_details", "")))
                for event in copied
            ]
            sizes = [match[1] if (match := _SIZE.search(detail)) else "0" for detail in details]
            columns = {
                "kind": trace.text([copy_kind(event.name)[0] for event in copied]),
                "memory": trace.text([copy_kind(detail)[1] for detail in details]),
                "bytes": np.array([int(size[:15]) for size in sizes], np.int64),
            }
            self._on_stream("memory_operations", copied, device, stream, columns)

    def _on_stream(
        self, table: str, events: list[_Event], device: int, stream: int, columns: dict[str, NDArray[Any]]
    ) -> None:
        time, duration = _times(events)
        devices, streams = (np.full(len(events), number) for number in (device, stream))
        columns["device"], columns["stream"] = placed(self._trace, devices, streams)
        correlation = _correlations(events)
        self._trace.append(table, time=time, duration=duration, correlation=correlation, **columns)


def _entry(data: memoryview) -> tuple[int, str]:
    """Return key and name of an entry of a map of names."""
    entry = dict(fields(data))
    value = dict(fields(content(entry.get(2, 0))))
    return signed(entry.get(1, 0)), text(value.get(4, 0)) or text(value.get(2, 0))


def _times(events: list[_Event]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    most = 2**62  # no clock shows it: such rows are left out
    times = [(min(max(event.time, -most), most), min(event.duration, most)) for event in events]
    columns = np.array(times, np.int64)
    return columns[:, 0], columns[:, 1]


def _correlations(events: list[_Event]) -> NDArray[np.int64]:
    told = [event.stats.get("correlation_id", 0) for event in events]
    return np.array([number if isinstance(number, int) else 0 for number in told], np.int64)
