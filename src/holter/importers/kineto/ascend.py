"""Rows of what a trace of Ascend (msprof) tells of its device: tasks of streams, collectives, iterations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from holter.importers.kineto import host_events
from holter.importers.kineto.event_args import decode_args
from holter.importers.kineto.kernel_kinds import collective

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.importers.kineto.events import TraceEvent
    from holter.importers.trace import Trace

COLLECTIVES = "Communication Kernel"
"""What the thread is called on which collectives stand as a whole; their parts are tasks of streams."""
_STEP = re.compile(r"Iteration (\d{1,9})")


class _TaskArgs(msgspec.Struct, gc=False):
    task: str | None = msgspec.field(default=None, name="Task Type")
    stream: int | None = msgspec.field(default=None, name="Stream Id")


def is_device(event: TraceEvent) -> bool:
    """Tell whether an event is a task of a stream."""
    return b'"Task Type"' in bytes(event.args)


def tasks(
    trace: Trace, events: list[TraceEvent], time: NDArray[np.int64], duration: NDArray[np.int64]
) -> None:
    """Take in tasks: computing ones are kernels, copies memory operations, the rest lies over a stream."""
    args = decode_args(events, _TaskArgs)
    device = trace.rank_by_name() or 0
    rows: dict[str, list[int]] = {"kernels": [], "memory_operations": [], "operators": []}
    for row, a in enumerate(args):
        task = a.task or ""
        computes = task.startswith(("AI_", "MIX_", "KERNEL_"))
        table = "kernels" if computes else "memory_operations" if "MEMCPY" in task else "operators"
        rows[table].append(row)
    streams = np.array([-1 if a.stream is None else min(max(a.stream, -1), 2**31 - 1) for a in args])
    for stream in np.unique(streams).tolist():
        trace.stream(device, stream)
    for table, listed in rows.items():
        if not listed:
            continue
        at = np.array(listed)
        names = trace.text([events[row].name or "" for row in listed])
        count, none = len(listed), trace.same("", len(listed))
        own: dict[str, NDArray[Any]] = {"device": np.full(count, device, np.int16), "stream": streams[at]}
        if table == "kernels":
            own |= {"name": names, "kind": trace.same("compute", count), "collective": none}
            own |= {"process_group": none, "detail": none}
        elif table == "memory_operations":
            own |= {"kind": trace.same("d2d", count), "memory": none}
        else:
            waits = [
                "device_wait" if "WAIT" in (args[row].task or "") else "device_annotation" for row in listed
            ]
            own = {"thread": streams[at], "name": names, "kind": trace.text(waits), "detail": none}
        trace.append(table, time=time[at], duration=duration[at], **own)


def collectives(
    trace: Trace, events: list[TraceEvent], time: NDArray[np.int64], duration: NDArray[np.int64]
) -> None:
    """Take in whole collectives as kernels; their stream is not told."""
    device, count = trace.rank_by_name() or 0, len(events)
    names = [event.name or "" for event in events]
    trace.stream(device, -1)
    trace.append(
        "kernels",
        time=time,
        duration=duration,
        device=np.full(count, device, np.int16),
        stream=np.full(count, -1, np.int32),
        name=trace.text(names),
        kind=trace.same("communication", count),
        collective=trace.text([collective(name) for name in names]),
        process_group=trace.same("", count),
        detail=trace.same("", count),
    )


def iterations(
    trace: Trace, events: list[TraceEvent], time: NDArray[np.int64], duration: NDArray[np.int64]
) -> None:
    """Take in iterations: steps."""
    for row, event in enumerate(events):
        if match := _STEP.fullmatch(event.name or ""):
            trace.step(int(match[1]), int(time[row]), int(time[row] + duration[row]), event.name or "")
    host_events.named(trace, events, time, duration, "annotation")
