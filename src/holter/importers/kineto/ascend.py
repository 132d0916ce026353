"""Reads the device's events in a trace of Ascend (msprof): tasks of streams, collectives, iterations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from holter.importers.kineto import host_events
from holter.importers.kineto.device_events import computing, copies, placed
from holter.importers.kineto.event_args import decode_args
from holter.importers.kineto.kernel_kinds import collective
from holter.importers.trace import whole_numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.importers.kineto.event_args import TraceEvent
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
    rows: dict[str, list[int]] = {"kernels": [], "memory_operations": [], "operators": []}
    for row, a in enumerate(args):
        task = a.task or ""
        computes = task.startswith(("AI_", "MIX_", "KERNEL_"))
        table = "kernels" if computes else "memory_operations" if "MEMCPY" in task else "operators"
        rows[table].append(row)
    devices, streams = _placed(trace, whole_numbers([a.stream for a in args]))
    for table, listed in rows.items():
        if not listed:
            continue
        at = np.array(listed)
        names = trace.text([events[row].name or "" for row in listed])
        if table == "operators":
            waits = ["WAIT" in (args[row].task or "") for row in listed]
            kinds = trace.text(["device_wait" if wait else "device_annotation" for wait in waits])
            threads = streams[at].astype(np.int64)
            host_events.operator_rows(trace, names, threads, time[at], duration[at], kinds)
            continue
        moved = np.zeros(len(listed), np.int64)
        own = computing(trace, names) if table == "kernels" else copies(trace, [""] * len(listed), moved)
        where = {"device": devices[at], "stream": streams[at]}
        trace.append(table, time=time[at], duration=duration[at], **where, **own)


def collectives(
    trace: Trace, events: list[TraceEvent], time: NDArray[np.int64], duration: NDArray[np.int64]
) -> None:
    """Take in whole collectives as kernels; the trace does not name their stream."""
    names = [event.name or "" for event in events]
    columns = computing(trace, trace.text(names))
    columns["kind"] = trace.same("communication", len(events))
    columns["collective"] = trace.text([collective(name) for name in names])
    device, stream = _placed(trace, np.full(len(events), -1))
    trace.append("kernels", time=time, duration=duration, device=device, stream=stream, **columns)


def _placed(trace: Trace, streams: NDArray[np.int64]) -> tuple[NDArray[np.int16], NDArray[np.int32]]:
    """Return the columns of the device, which the file's name tells, and of streams."""
    return placed(trace, np.full(len(streams), trace.rank_by_name() or 0), streams)


def iterations(
    trace: Trace, events: list[TraceEvent], time: NDArray[np.int64], duration: NDArray[np.int64]
) -> None:
    """Take in iterations: steps."""
    for row, event in enumerate(events):
        if match := _STEP.fullmatch(event.name or ""):
            trace.step(int(match[1]), int(time[row]), int(time[row] + duration[row]), event.name or "")
    host_events.named(trace, events, time, duration, "annotation")
