"""Reads events that are no stretches of time: names, counters, arrows, instants, open pairs."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from holter.importers.kineto.event_args import decode_args, mapping
from holter.importers.kineto.threads import whole_or
from holter.importers.trace import MOST_NAMES, Trace, whole_numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.importers.kineto.event_args import TraceEvent

MOST_OPEN = 1_000_000
"""Arrows and slices that wait for their other end, at most."""
LAUNCH_FLOWS = frozenset(("ac2g", "async_cpu_to_gpu", "async", "async_gpu"))
"""Arrows from a launch to its kernel: the correlation of both says the same."""
_DEVICE_TYPES = {0: "cpu", 1: "cuda", 6: "hip", 12: "xpu", 13: "mps", 15: "hpu", 19: "mtia", 20: "device"}
_DEVICE_LABELS = ("GPU", "MTIA", "XPU", "HPU", "NPU")
"""PyTorch names the process of a device after the one that traced it, and says in a label which it is."""


class _NameArgs(msgspec.Struct, gc=False):
    name: str | int | None = None
    labels: str | None = None
    sort_index: int | None = None
    start_us: int | float | None = msgspec.field(default=None, name="start_time_since_epoch_in_micros")


class MemoryArgs(msgspec.Struct, gc=False):
    """The arguments of a mark of PyTorch's allocator: the device, and its bytes."""

    type: int = msgspec.field(default=-1, name="Device Type")
    device: int = msgspec.field(default=-1, name="Device Id")
    bytes: int | None = msgspec.field(default=None, name="Bytes")
    allocated: int | None = msgspec.field(default=None, name="Total Allocated")
    reserved: int | None = msgspec.field(default=None, name="Total Reserved")


class Flows:
    """Joins the two ends of arrows. Ends may come in any order; numbers may be used again."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._waiting: dict[tuple[Any, Any], tuple[str, int, int]] = {}

    def take(self, events: list[TraceEvent], time: NDArray[np.int64]) -> None:
        """Take in ends of arrows: `ph` is s, t or f."""
        rows: list[tuple[int, int, int, int, str]] = []
        for event, at in zip(events, time.tolist(), strict=True):
            kind = event.cat or event.name or ""
            key = (kind, event.id)
            here = (event.ph, at, self._trace.threads[event.pid, event.tid])
            there = self._waiting.pop(key, None)
            same_end = there is not None and (there[0] == "f") == (here[0] == "f")
            if there is not None and same_end and "t" not in (here[0], there[0]):
                self._trace.skipped["an arrow whose number another one has"] += 1
                there = None
            if there is None:
                if len(self._waiting) < MOST_OPEN:
                    self._waiting[key] = here
                else:
                    self._trace.skipped["an arrow beyond the most that may be open"] += 1
                continue
            begin, end = (there, here) if there[0] != "f" else (here, there)
            if end[1] < begin[1]:
                self._trace.skipped["an arrow that leads back in time"] += 1
            else:
                word = "forward_backward" if kind == "fwdbwd" else kind
                rows.append((begin[1], end[1] - begin[1], begin[2], end[2], word))
            if here[0] == "t":
                self._waiting[key] = here
        if rows:
            *numbers, words = zip(*rows, strict=True)
            names = ("time", "duration", "thread", "target")
            columns = dict(zip(names, np.array(numbers, np.int64), strict=True))
            self._trace.append("flows", **columns, kind=self._trace.text(words))

    def close(self) -> None:
        """Count the arrows that have only one end."""
        if self._waiting:
            self._trace.skipped["an arrow with one end"] += len(self._waiting)


class OpenSlices:
    """Makes slices of events that begin (B) and end (E) them, thread by thread; the newest ends first."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._open: dict[Any, list[tuple[TraceEvent, int]]] = {}
        self._count = 0

    def take(
        self, events: list[TraceEvent], time: NDArray[np.int64]
    ) -> tuple[list[TraceEvent], NDArray[Any], NDArray[Any]]:
        """Return the slices that these events close: what began them, when, and how long they took."""
        closed: list[tuple[TraceEvent, int, int]] = []
        for event, at in zip(events, time.tolist(), strict=True):
            key = (event.pid, event.tid) if event.ph in "BE" else (event.cat, event.id, event.pid)
            stack = self._open.setdefault(key, [])
            if event.ph in "BbS":
                if self._count >= MOST_OPEN:
                    self._trace.skipped["a slice beyond the most that may be open"] += 1
                    continue
                stack.append((event, at))
                self._count += 1
            elif not stack:
                self._trace.skipped["the end of a slice that did not begin"] += 1
            else:
                begun, since = stack.pop()
                self._count -= 1
                if at < since:
                    self._trace.skipped["a slice that ends before it begins"] += 1
                else:
                    closed.append((begun, since, at - since))
        return _columns(closed)

    def close(self, last: int) -> tuple[list[TraceEvent], NDArray[Any], NDArray[Any]]:
        """Return what is open still, as if it ended with the trace."""
        left = [(event, at, max(0, last - at)) for stack in self._open.values() for event, at in stack]
        if left:
            self._trace.notes.append(
                f"{len(left)} slices do not end; they are taken to last until the trace ends"
            )
        return _columns(left)


def _columns(rows: list[tuple[TraceEvent, int, int]]) -> tuple[list[TraceEvent], NDArray[Any], NDArray[Any]]:
    times = np.array([row[1:] for row in rows], np.int64).reshape(-1, 2)
    return [row[0] for row in rows], times[:, 0], times[:, 1]


def names(trace: Trace, events: list[TraceEvent]) -> None:
    """Take in what processes and threads are called, and where they stand."""
    seen = trace.named
    new = {key: e for e in events if (key := (e.name, e.pid, e.tid)) not in seen}
    seen.update(islice(new, max(0, MOST_NAMES - len(seen))))
    for event, args in zip(new.values(), decode_args([*new.values()], _NameArgs), strict=True):
        if args.start_us is not None:
            trace.offset_ns = int(args.start_us * 1000)
            trace.facts["clock"] = "epoch"
            continue
        text = str(args.name).strip() if args.name is not None else ""
        if event.name in ("process_name", "process_sort_index"):
            trace.name(event.pid, None, text, args.sort_index)
        elif event.name == "process_labels" and args.labels and args.labels.startswith(_DEVICE_LABELS):
            trace.name(event.pid, None, args.labels, None)
        elif event.name in ("thread_name", "thread_sort_index"):
            trace.name(event.pid, event.tid, text, args.sort_index)


def memory(trace: Trace, events: list[TraceEvent], time: NDArray[np.int64]) -> None:
    """Take in marks of PyTorch's allocator: bytes allocated and reserved, else how much they changed."""
    told = decode_args(events, MemoryArgs)
    memory_rows(
        trace,
        time,
        whole_numbers([a.type for a in told]),
        whole_numbers([a.device for a in told]),
        {
            "allocated": np.array([a.allocated for a in told], np.float64),
            "reserved": np.array([a.reserved for a in told], np.float64),
            "change": np.array([a.bytes for a in told], np.float64),
        },
    )


def memory_rows(
    trace: Trace,
    time: NDArray[np.int64],
    types: NDArray[np.int64],
    devices: NDArray[np.int64],
    told_bytes: dict[str, NDArray[np.float64]],
) -> None:
    """Take in the allocator's bytes of each device; NaN where a mark has none."""
    for type_, number in sorted(set(zip(types.tolist(), devices.tolist(), strict=True))):
        own = (types == type_) & (devices == number)
        device = _DEVICE_TYPES.get(type_, f"device{type_}")
        name = f"memory {device}:{number}" if number >= 0 else f"memory {device}"
        untold = bool(np.isnan(told_bytes["allocated"][own]).all())
        for which in ("change",) if untold else ("allocated", "reserved"):
            rows = np.flatnonzero(own & ~np.isnan(told_bytes[which]))
            if len(rows):
                trace.append(
                    "counters",
                    time=time[rows],
                    process=np.full(len(rows), -1, np.int64),
                    name=trace.same(f"{name}/{which}", len(rows)),
                    value=told_bytes[which][rows],
                )


def counters(trace: Trace, events: list[TraceEvent], time: NDArray[np.int64]) -> None:
    """Take in counters, each series by itself."""
    rows: list[tuple[int, int, str, float]] = []
    for event, at in zip(events, time.tolist(), strict=True):
        series = mapping(event.args)
        numbers = {k: v for k, v in series.items() if isinstance(v, int | float) and not isinstance(v, bool)}
        process, name = whole_or(event.pid, 0), event.name or ""
        for key, value in numbers.items():
            rows.append((at, process, name if len(numbers) == 1 else f"{name}/{key}", float(value)))
    if rows:
        times, processes, names, values = zip(*rows, strict=True)
        trace.append(
            "counters",
            time=np.array(times, np.int64),
            process=np.array(processes, np.int64),
            name=trace.text(names),
            value=np.array(values, np.float64),
        )
