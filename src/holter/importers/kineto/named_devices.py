"""Device work of traces in which no category tells it: the names of processes and threads do.

As TensorFlow, JAX, rocprof, SageMaker's hooks and the first profiler of PyTorch write them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from holter.importers.kineto.device_events import copies, kernels, placed
from holter.importers.kineto.event_args import decode_args
from holter.importers.kineto.threads import whole
from holter.importers.trace import whole_numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.importers.kineto.event_args import TraceEvent
    from holter.importers.trace import Trace

_XLA = re.compile(r"/device:(?P<kind>GPU|TPU|XLA_GPU|CUSTOM)[^:]*:(?P<number>\d{1,4})(?!\d)")
_NUMBERED = re.compile(r"(?:gpu_functions-dev:|GPU ?)(\d{1,4})")
_WHOLE = ("CUDA functions", "HIP functions")
"""Processes of the first profiler of PyTorch, whose threads are devices."""
_STREAM = re.compile(r"[Ss]tream ?[#:]?(\d{1,9}|all)(?!\d)")
_COPY = re.compile(r"memcpy|memset|Copy(?:Host|Device)", re.IGNORECASE)


class _Args(msgspec.Struct, gc=False):
    correlation: int | str = msgspec.field(default=0, name="correlation_id")
    bytes: int | str = msgspec.field(default=0, name="num_bytes")


def device_of(trace: Trace, event: TraceEvent) -> int | None:
    """Return the device that an event ran on by the name of its process; None for one of the host."""
    if event.pid in _WHOLE:
        return whole(event.tid) or 0
    name = trace.called(event.pid, None)[0] or (event.pid if isinstance(event.pid, str) else "")
    if found := _NUMBERED.fullmatch(name):
        return int(found[1])
    if (xla := _XLA.search(name)) is None:
        return None
    # Beside its streams a GPU has threads that say the same in larger pieces; a TPU has but those.
    thread = trace.called(event.pid, event.tid)[0]
    runs = (
        _STREAM.search(thread)
        or _STREAM.search(name)
        or ("GPU" not in xla["kind"] and thread in ("", "XLA Ops"))
    )
    return int(xla["number"]) if runs else None


def work(
    trace: Trace, events: list[TraceEvent], time: NDArray[np.int64], duration: NDArray[np.int64]
) -> None:
    """Take in kernels, copies and fills."""
    numbers = whole_numbers([_stream(trace, event) for event in events])
    on = np.array([device_of(trace, event) or 0 for event in events], np.int64)
    devices, streams = placed(trace, on, numbers)
    args = decode_args(events, _Args)
    correlation = whole_numbers([a.correlation for a in args], 0)
    copied = np.array([_COPY.search(event.name or "") is not None for event in events])
    for table, rows in (("kernels", np.flatnonzero(~copied)), ("memory_operations", np.flatnonzero(copied))):
        if not len(rows):
            continue
        names = [events[row].name or "" for row in rows.tolist()]
        moved = whole_numbers([args[row].bytes for row in rows.tolist()], 0)
        trace.append(
            table,
            time=time[rows],
            duration=duration[rows],
            device=devices[rows],
            stream=streams[rows],
            correlation=correlation[rows],
            **(kernels(trace, names) if table == "kernels" else copies(trace, names, moved)),
        )


def _stream(trace: Trace, event: TraceEvent) -> int | str | None:
    """Return the stream by the name of its thread, else the thread; None where only the device is known."""
    if event.pid in _WHOLE:
        return None
    found = _STREAM.search(trace.called(event.pid, event.tid)[0])
    return found[1] if found else event.tid
