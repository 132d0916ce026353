"""Import traces in Chrome's format: torch.profiler (Kineto) of all versions and vendors, others."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from holter.importers.kineto import ascend, device_events, host_events, marks, named_devices, scanning
from holter.importers.kineto.moments import nanoseconds
from holter.importers.kineto.trace_events import UTF_16, TraceEvents
from holter.importers.kineto.usual_events import UsualEvents
from holter.importers.report import UnreadableError, own_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from holter.importers.kineto.event_args import TraceEvent
    from holter.importers.trace import Trace

FORMAT = "chrome-json"

_PAIRED = {"E": "B", "e": "b", "F": "S", "t": "s", "f": "s"}
"""What ends, by what begins it."""
_UNTOLD = ("", "op", "gpu_functions")
"""Categories of traces in which the names of processes say which device they stand for."""
_OMITTED = {
    "Iteration Start: PyTorch Profiler": "marks of the profiler",
    "Record Window End": "marks of the profiler",
}


def recognizes(path: Path) -> bool:
    """Tell by name and first bytes whether a file may hold trace events."""
    name = path.name.lower()
    return name.endswith((".json", ".json.gz", ".gz", ".trace", ".corrupt")) and may_be(path)


def may_be(path: Path) -> bool:
    """Tell by its first bytes whether a file may hold trace events, whatever its name."""
    with path.open("rb") as file:
        first = file.read(64)
    return first.startswith((b"\x1f\x8b", *UTF_16)) or first.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (
        b"{",
        b"[",
    )


def read(
    path: Path, trace: Trace, *, rest: Callable[[list[TraceEvent]], list[TraceEvent]] | None = None
) -> None:
    """Read a file into a trace.

    Args:
        path: The file.
        trace: Where to.
        rest: Given events, takes what it knows better and returns the others.

    Raises:
        UnreadableError: It holds no trace events.
        OSError: It cannot be read at all.
    """
    usual = _usual(trace) if rest is None else None
    try:
        _read(TraceEvents(path, trace.skipped, usual), trace, rest)
    finally:
        if usual is not None:
            usual.close()


def _usual(trace: Trace) -> UsualEvents | None:
    """Return what takes usual events apart, where it was compiled."""
    return UsualEvents(trace) if scanning.compiled() else None


def _read(
    source: TraceEvents, trace: Trace, rest: Callable[[list[TraceEvent]], list[TraceEvent]] | None
) -> None:
    flows, pairs = marks.Flows(trace), marks.OpenSlices(trace)
    for events in source:
        trace.events += len(events)
        trace.progress(source.read)
        if rest is not None:
            events = rest(events)
        for ph, cat, group in _groups(events):
            try:
                _take(trace, ph, cat, group, flows, pairs)
            except (UnreadableError, OSError, MemoryError):
                raise
            except Exception as error:  # the events of one kind are lost, and the report says by whose fault
                trace.skipped[f"events of {(cat or ph)[:40]!r}, by {own_fault(error)}"] += len(group)
    host_events.named(trace, *pairs.close(trace.last), "operator")
    flows.close()
    _facts(trace, source.header)


def _groups(events: list[TraceEvent]) -> Iterator[tuple[str, str, list[TraceEvent]]]:
    """Yield the events of each kind and category; of what comes in pairs, both together and in order."""
    by_category: defaultdict[str | None, list[TraceEvent]] = defaultdict(list)
    for event in events:
        by_category[event.cat].append(event)
    for cat, group in by_category.items():
        name = (cat or "").lower()
        kinds = dict.fromkeys(_PAIRED.get(kind, kind) for kind in sorted({event.ph for event in group}))
        if len(kinds) == 1:
            yield kinds.popitem()[0], name, group
            continue
        for kind in kinds:
            yield kind, name, [event for event in group if _PAIRED.get(event.ph, event.ph) == kind]


def _take(
    trace: Trace, ph: str, cat: str, events: list[TraceEvent], flows: marks.Flows, pairs: marks.OpenSlices
) -> None:
    if ph == "M":
        marks.names(trace, events)
        return
    if ph == "s" and cat in marks.LAUNCH_FLOWS:
        trace.omitted["arrows from launches to kernels"] += len(events)
        return
    if cat == "trace":
        trace.omitted["marks of the profiler"] += len(events)
        return
    timed = [event for event in events if event.ts is not None]
    if len(timed) < len(events):
        trace.skipped["an event without a time"] += len(events) - len(timed)
    if not timed:
        return
    events, time = timed, nanoseconds([event.ts for event in timed])
    if ph == "X":
        duration = trace.lengths(nanoseconds([event.dur or 0 for event in events]))
        _READERS.get(cat, _other)(trace, events, time, duration)
    elif ph in ("B", "b", "S"):
        host_events.named(trace, *pairs.take(events, time), "operator")
    elif ph == "s":
        flows.take(events, time)
    elif ph == "C":
        marks.counters(trace, events, time)
    elif ph in ("i", "I", "R", "n"):
        _instants(trace, events, time)
    else:
        trace.skipped[f"an event of kind {ph[:20]!r}"] += len(events)


def _other(
    trace: Trace, events: list[TraceEvent], time: NDArray[np.int64], duration: NDArray[np.int64]
) -> None:
    cat = (events[0].cat or "").lower()
    if cat.endswith(("_runtime", "_driver")):
        host_events.runtime(trace, events, time, duration)
        return
    kind = {"fee": "python", "overhead": "overhead"}.get(cat, "operator")
    threads = {(event.pid, event.tid): event for event in events}
    known = {key: _sort(trace, event) for key, event in threads.items()} if cat in _UNTOLD else {}
    sorts = np.array([known.get((event.pid, event.tid), 0) for event in events], np.int8)
    if not cat and not sorts.all():
        sorts[[row for row in np.flatnonzero(sorts == 0).tolist() if ascend.is_device(events[row])]] = 1
    if not sorts.any():
        host_events.named(trace, events, time, duration, kind)
        return
    for sort, take in enumerate((None, ascend.tasks, ascend.collectives, named_devices.work)):
        rows = np.flatnonzero(sorts == sort)
        own = [events[row] for row in rows.tolist()]
        if own and take is None:
            host_events.named(trace, own, time[rows], duration[rows], kind)
        elif own and take is not None:
            take(trace, own, time[rows], duration[rows])


def _sort(trace: Trace, event: TraceEvent) -> int:
    """Tell what the events of a thread are by its name: 2 collectives of Ascend, 3 work of a device."""
    if trace.called(event.pid, event.tid)[0] == ascend.COLLECTIVES:
        return 2
    return 3 if named_devices.device_of(trace, event) is not None else 0


def _instants(trace: Trace, events: list[TraceEvent], time: NDArray[np.int64]) -> None:
    memory = [row for row, event in enumerate(events) if event.name == "[memory]"]
    others = [row for row, event in enumerate(events) if event.name not in ("[memory]", *_OMITTED)]
    trace.omitted.update(_OMITTED[event.name] for event in events if event.name in _OMITTED)
    if memory:
        marks.memory(trace, [events[row] for row in memory], time[memory])
    if others:
        own, durations = [events[row] for row in others], np.zeros(len(others), np.int64)
        host_events.named(trace, own, time[others], durations, "annotation")


def _facts(trace: Trace, header: dict[str, object]) -> None:
    """Keep what the file says of its job."""
    base = header.get("baseTimeNanoseconds")
    if type(base) is int and 0 <= base < 2**62:
        trace.offset_ns = base
    distributed = header.get("distributedInfo")
    if isinstance(distributed, dict):
        rank = distributed.get("rank")
        if type(rank) is int and 0 <= rank < 2**31:
            trace.rank = rank
        trace.facts["world_size"] = distributed.get("world_size")
        trace.facts["backend"] = distributed.get("backend")
    devices = header.get("deviceProperties")
    if isinstance(devices, list):
        trace.facts["devices"] = [device for device in devices if isinstance(device, dict)][:1024]


_READERS: dict[str, Callable[[Trace, list[TraceEvent], NDArray[np.int64], NDArray[np.int64]], None]] = {
    **dict.fromkeys(host_events.OPERATORS, host_events.operators),
    **dict.fromkeys(host_events.ANNOTATIONS, host_events.ranges),
    **dict.fromkeys(host_events.PYTHON, host_events.python),
    "runtime": host_events.runtime,
    "iteration time": ascend.iterations,
    **dict.fromkeys(device_events.KERNELS | device_events.MEMORY, device_events.device_work),
    **dict.fromkeys(device_events.ANNOTATIONS | device_events.SYNCS, device_events.on_streams),
}
