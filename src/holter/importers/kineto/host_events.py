"""Reads the host's events in a trace of torch.profiler: operators, ranges, calls of the runtime, waits."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec import Raw

from holter.importers.kineto.event_args import decode_args, details
from holter.importers.trace import whole_numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.importers.kineto.event_args import TraceEvent
    from holter.importers.trace import Trace

LONGEST_DETAIL = 1 << 16
"""Bytes that an event of unknown kind may carry to be kept."""
OPERATORS = frozenset(("cpu_op", "operator"))
ANNOTATIONS = frozenset(("user_annotation",))
PYTHON = frozenset(("python_function",))
_STEP = re.compile(r"ProfilerStep#(\d{1,9})")
"""What the profiler of PyTorch calls the annotation of a step."""
_MODULE = re.compile(r"nn\.Module: ")
_LAUNCH = re.compile(r"launch|memcpy|memset|runfunction|enqueue|submit", re.IGNORECASE)
_WAIT = re.compile(r"synchronize|^(cuda|hip)Memcpy(WithStream|HtoD|DtoH)?$", re.IGNORECASE)
_WAITS = tuple(
    (re.compile(word, re.IGNORECASE), kind)
    for word, kind in (("memcpy", "copy"), ("event", "event"), ("stream", "stream"))
)
"""What a wait is for, by a word of its name; the last that fits holds."""


class OperatorArgs(msgspec.Struct, gc=False, omit_defaults=True):
    """What is kept of an operator; numbers that only order events within the file are not."""

    dims: Raw = msgspec.field(default=Raw(), name="Input Dims")
    types: Raw = msgspec.field(default=Raw(), name="Input type")
    strides: Raw = msgspec.field(default=Raw(), name="Input Strides")
    concrete: Raw = msgspec.field(default=Raw(), name="Concrete Inputs")
    stack: Raw = msgspec.field(default=Raw(), name="Call stack")
    module: Raw = msgspec.field(default=Raw(), name="Module Hierarchy")
    collective: Raw = msgspec.field(default=Raw(), name="Collective name")
    group: Raw = msgspec.field(default=Raw(), name="Process Group Name")
    kernel: Raw = msgspec.field(default=Raw(), name="kernel_file")


class RuntimeArgs(msgspec.Struct, gc=False):
    """What is kept of a call: what it launched."""

    correlation: int = 0


def operators(
    trace: Trace, events: list[TraceEvent], time: NDArray[np.int64], duration: NDArray[np.int64]
) -> None:
    """Take in operators, with their shapes, types and stacks."""
    carried = details(trace, decode_args(events, OperatorArgs))
    name = trace.text(_names(events))
    operator_rows(trace, name, trace.threads.numbers(events), time, duration, "operator", carried)
    steps(trace, name, time, duration)  # the first versions called steps operators


def ranges(
    trace: Trace, events: list[TraceEvent], time: NDArray[np.int64], duration: NDArray[np.int64]
) -> None:
    """Take in ranges that the user or the framework named; those of steps are steps too."""
    name = trace.text(_names(events))
    operator_rows(trace, name, trace.threads.numbers(events), time, duration, "annotation")
    steps(trace, name, time, duration)


def python(
    trace: Trace, events: list[TraceEvent], time: NDArray[np.int64], duration: NDArray[np.int64]
) -> None:
    """Take in calls of Python functions, and of modules, whose names say so."""
    python_rows(trace, trace.text(_names(events)), trace.threads.numbers(events), time, duration)


def python_rows(
    trace: Trace,
    name: NDArray[np.int32],
    thread: NDArray[np.int64],
    time: NDArray[np.int64],
    duration: NDArray[np.int64],
) -> None:
    """Take in calls of Python functions and of modules, names by their numbers."""
    module, function = (np.int32(trace.staging.texts[kind]) for kind in ("module", "python"))
    kinds = np.where(trace.texts_that(_MODULE.match, name), module, function)
    operator_rows(trace, name, thread, time, duration, kinds)


def runtime(
    trace: Trace, events: list[TraceEvent], time: NDArray[np.int64], duration: NDArray[np.int64]
) -> None:
    """Take in calls of the runtime and the driver: launches, waits for the device, and others."""
    correlation = whole_numbers([args.correlation for args in decode_args(events, RuntimeArgs)], 0)
    threads = trace.threads.numbers(events)
    calls(trace, trace.text(_names(events)), threads, time, duration, correlation)


def calls(
    trace: Trace,
    codes: NDArray[np.int32],
    threads: NDArray[np.int64],
    time: NDArray[np.int64],
    duration: NDArray[np.int64],
    correlation: NDArray[np.int64],
) -> None:
    """Take in calls of a runtime by the numbers of their names: launches, waits, and others."""
    # A copy may be launched and waited for.
    launched, waited = (trace.texts_that(pattern.search, codes) for pattern in (_LAUNCH, _WAIT))
    sorts = (launched, waited, ~(launched | waited))
    launches, waits, others = map(np.flatnonzero, sorts)
    trace.append(
        "launches",
        time=time[launches],
        duration=duration[launches],
        thread=threads[launches],
        name=codes[launches],
        correlation=correlation[launches],
    )
    trace.append(
        "syncs",
        time=time[waits],
        duration=duration[waits],
        thread=threads[waits],
        name=codes[waits],
        kind=_waited_for(trace, codes[waits]),
    )
    operator_rows(trace, codes[others], threads[others], time[others], duration[others], "runtime")


def named(
    trace: Trace, events: list[TraceEvent], time: NDArray[np.int64], duration: NDArray[np.int64], kind: str
) -> None:
    """Take in stretches of time on threads that are of no kind known here, with all they carry."""
    given = [bytes(event.args) for event in events]
    carried = trace.text([text if len(text) <= LONGEST_DETAIL else b"" for text in given])
    threads = trace.threads.numbers(events)
    operator_rows(trace, trace.text(_names(events)), threads, time, duration, kind, carried)


def operator_rows(
    trace: Trace,
    name: NDArray[np.int32],
    thread: NDArray[np.int64],
    time: NDArray[np.int64],
    duration: NDArray[np.int64],
    kind: str | NDArray[np.int32],
    detail: NDArray[np.int32] | None = None,
) -> None:
    """Take in rows of table `operators`, texts by their numbers, of one kind or of a kind each."""
    trace.append(
        "operators",
        time=time,
        duration=duration,
        thread=thread,
        name=name,
        kind=trace.same(kind, len(name)) if isinstance(kind, str) else kind,
        detail=trace.same("", len(name)) if detail is None else detail,
    )


def steps(
    trace: Trace, codes: NDArray[np.int32], time: NDArray[np.int64], duration: NDArray[np.int64]
) -> None:
    """Take in the steps among named ranges."""
    rows = np.flatnonzero(trace.texts_that(_STEP.fullmatch, codes))
    if not len(rows):
        return
    names = [*trace.staging.texts]
    for row in rows.tolist():
        name = str(names[codes[row]])
        trace.step(int(name.partition("#")[2]), int(time[row]), int(time[row] + duration[row]), name)


def _names(events: list[TraceEvent]) -> list[str]:
    return [event.name or "" for event in events]


def _waited_for(trace: Trace, codes: NDArray[np.int32]) -> NDArray[np.int32]:
    kinds = trace.same("device", len(codes))
    for word, kind in _WAITS:
        kinds[trace.texts_that(word.search, codes)] = trace.staging.texts[kind]
    return kinds
