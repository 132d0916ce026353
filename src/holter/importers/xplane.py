"""Import XPlane files (`.xplane.pb`) of TensorFlow and JAX: threads of the host, streams of GPUs, TPUs."""

from __future__ import annotations

import mmap
import re
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.importers.kineto import host_events
from holter.importers.kineto.device_events import copy_kind, kernels, placed
from holter.importers.report import UnreadableError
from holter.schema.protobuf import content, fields, text
from holter.schema.varint import BadMessageError
from holter.schema.xplane import COPY, HOSTS, PLANES, RELATIVE, SIZE, STREAM, Event, Line, Plane

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from holter.importers.trace import Trace

FORMAT = "xplane"

_RUNTIME = re.compile(r"(cuda|cu|hip|nccl)[A-Z]\w+")
_HOST = 1 << 20
"""Number of the first process of the host; below are the devices."""
_ROWS = 20_000


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
    began = 0
    try:
        for number, value in fields(space):
            trace.progress(0)
            if number == HOSTS:
                trace.facts["host"] = text(value)
            elif number == PLANES:
                plane = Plane(content(value))
                began = began or plane.began
                _PlaneReader(trace, plane).read()
    except BadMessageError as error:
        if not trace.events:
            raise UnreadableError(f"it is no XPlane: {error}") from None
        trace.skipped[f"the rest of the file: {error}"] += 1
    if began and trace.last < RELATIVE:
        trace.offset_ns = began


class _PlaneReader:
    """Reads one plane into a trace."""

    def __init__(self, trace: Trace, plane: Plane) -> None:
        self._trace = trace
        self._plane = plane

    def read(self) -> None:
        """Take in all lines of the plane."""
        plane, trace = self._plane, self._trace
        device = plane.device
        trace.name(_HOST + plane.id if device is None else device, None, plane.name, None)
        for data in plane.lines():
            try:
                self._line(Line(plane, data), device)
            except BadMessageError as error:
                trace.skipped[f"a line of {plane.name}: {error}"] += 1

    def _line(self, line: Line, device: int | None) -> None:
        trace, plane = self._trace, self._plane
        stream = STREAM.match(line.name)
        found = line.events()
        while events := list(islice(found, _ROWS)):
            trace.events += len(events)
            if device is None:
                trace.name(_HOST + plane.id, line.number, line.name, None)
                self._host(events, trace.threads[_HOST + plane.id, line.number])
            elif line.name == "Steps":
                self._steps(events)
            elif stream is not None or (line.name == "XLA Ops" and "GPU" not in plane.name):
                self._streams(events, device, int(stream[1]) if stream else line.number, line.name)
            else:
                self._operators(events, trace.threads[plane.name, line.number], "device_annotation")
                trace.name(plane.name, line.number, line.name, None)

    def _host(self, events: list[Event], thread: int) -> None:
        groups: dict[str, list[Event]] = {"launch": [], "call": [], "operator": []}
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

    def _steps(self, events: list[Event]) -> None:
        for event in events:
            if event.name.isdecimal() and len(event.name) < 10:
                end = event.time + event.duration
                self._trace.step(int(event.name), event.time, end, f"step {event.name}")

    def _operators(self, events: list[Event], thread: int, kind: str) -> None:
        names = self._trace.text([event.name for event in events])
        threads = np.full(len(events), thread, np.int64)
        host_events.operator_rows(self._trace, names, threads, *_times(events), kind)

    def _streams(self, events: list[Event], device: int, stream: int, line: str) -> None:
        trace = self._trace
        trace.name(device, stream, line, None)
        copied = [event for event in events if COPY.search(event.name)]
        computed = [event for event in events if not COPY.search(event.name)]
        if computed:
            columns = kernels(trace, [event.name for event in computed])
            self._on_stream("kernels", computed, device, stream, columns)
        if copied:
            details = [
                str(event.stats.get("memcpy_details", event.stats.get("memset_details", "")))
                for event in copied
            ]
            sizes = [match[1] if (match := SIZE.search(detail)) else "0" for detail in details]
            columns = {
                "kind": trace.text([copy_kind(event.name)[0] for event in copied]),
                "memory": trace.text([copy_kind(detail)[1] for detail in details]),
                "bytes": np.array([int(size[:15]) for size in sizes], np.int64),
            }
            self._on_stream("memory_operations", copied, device, stream, columns)

    def _on_stream(
        self, table: str, events: list[Event], device: int, stream: int, columns: dict[str, NDArray[Any]]
    ) -> None:
        time, duration = _times(events)
        devices, streams = (np.full(len(events), number) for number in (device, stream))
        columns["device"], columns["stream"] = placed(self._trace, devices, streams)
        correlation = _correlations(events)
        self._trace.append(table, time=time, duration=duration, correlation=correlation, **columns)


def _times(events: list[Event]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    most = 2**62  # no clock shows it: such rows are left out
    times = [(min(max(event.time, -most), most), min(event.duration, most)) for event in events]
    columns = np.array(times, np.int64)
    return columns[:, 0], columns[:, 1]


def _correlations(events: list[Event]) -> NDArray[np.int64]:
    told = [event.stats.get("correlation_id", 0) for event in events]
    return np.array([number if isinstance(number, int) else 0 for number in told], np.int64)
