"""Rows of what a torch.profiler trace tells of the host: operators, ranges, calls of the runtime, waits."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec import Raw

from holter.importers.event_args import Details, decode_args
from holter.importers.trace import whole_numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.importers.trace import Trace
    from holter.importers.trace_events import Event

LONGEST_DETAIL = 1 << 16
"""Bytes that an event of unknown kind may carry to be kept."""
OPERATORS = frozenset(("cpu_op", "operator"))
ANNOTATIONS = frozenset(("user_annotation",))
PYTHON = frozenset(("python_function",))
_STEP = re.compile(r"ProfilerStep#(\d{1,9})")
"""What the profiler of PyTorch calls the annotation of a step."""
_LAUNCH = re.compile(r"launch|memcpy|memset|runfunction|enqueue|submit", re.IGNORECASE)
_WAIT = re.compile(r"synchronize|^(cuda|hip)Memcpy(WithStream|HtoD|DtoH)?$", re.IGNORECASE)
_WAITS = (("stream", "stream"), ("event", "event"), ("memcpy", "copy"))


class _OperatorArgs(msgspec.Struct, gc=False, omit_defaults=True):
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


class _RuntimeArgs(msgspec.Struct, gc=False):
    correlation: int = 0


_DETAILS = Details(_OperatorArgs)


def operators(
    trace: Trace, events: list[Event], time: NDArray[np.int64], duration: NDArray[np.int64]
) -> None:
    """Take in operators, with their shapes, types and stacks."""
    details = _DETAILS.read(trace, events)
    _operators(trace, events, time, duration, "operator", details)
    _steps(trace, events, time, duration)  # the first versions called steps operators


def ranges(trace: Trace, events: list[Event], time: NDArray[np.int64], duration: NDArray[np.int64]) -> None:
    """Take in ranges that the user or the framework named; those of steps are steps too."""
    _operators(trace, events, time, duration, "annotation", _no_details(trace, events))
    _steps(trace, events, time, duration)


def python(trace: Trace, events: list[Event], time: NDArray[np.int64], duration: NDArray[np.int64]) -> None:
    """Take in calls of Python functions, and of modules, whose names say so."""
    texts = trace.staging.texts
    module, function = texts["module"], texts["python"]
    kinds = [module if (e.name or "").startswith("nn.Module: ") else function for e in events]
    _operators(trace, events, time, duration, np.array(kinds, np.int32), _no_details(trace, events))


def runtime(trace: Trace, events: list[Event], time: NDArray[np.int64], duration: NDArray[np.int64]) -> None:
    """Take in calls of the runtime and the driver: launches, waits for the device, and others."""
    correlation = whole_numbers([args.correlation for args in decode_args(events, _RuntimeArgs)], 0)
    threads = trace.threads.numbers(events)
    calls(trace, [e.name or "" for e in events], threads, time, duration, correlation)


def calls(
    trace: Trace,
    names: list[str],
    threads: NDArray[np.int64],
    time: NDArray[np.int64],
    duration: NDArray[np.int64],
    correlation: NDArray[np.int64],
) -> None:
    """Take in calls of a runtime by their names: launches, waits for the device, and others."""
    codes = trace.text(names)
    launched, waited = np.zeros((2, len(trace.staging.texts)), bool)  # a copy may be launched and waited for
    for name in set(names):
        code = trace.staging.texts[name]
        launched[code], waited[code] = bool(_LAUNCH.search(name)), bool(_WAIT.search(name))
    sorts = (launched, waited, ~(launched | waited))
    launches, waits, others = (np.flatnonzero(sort[codes]) for sort in sorts)
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
        kind=trace.text([_wait(names[row]) for row in waits.tolist()]),
    )
    trace.append(
        "operators",
        time=time[others],
        duration=duration[others],
        thread=threads[others],
        name=codes[others],
        kind=trace.same("runtime", len(others)),
        detail=trace.same("", len(others)),
    )


def named(
    trace: Trace, events: list[Event], time: NDArray[np.int64], duration: NDArray[np.int64], kind: str
) -> None:
    """Take in stretches of time on threads that are of no kind known here, with all they carry."""
    details = trace.text([bytes(e.args) if len(bytes(e.args)) <= LONGEST_DETAIL else b"" for e in events])
    _operators(trace, events, time, duration, kind, details)


def _operators(
    trace: Trace,
    events: list[Event],
    time: NDArray[np.int64],
    duration: NDArray[np.int64],
    kind: str | NDArray[np.int32],
    detail: NDArray[np.int32],
) -> None:
    trace.append(
        "operators",
        time=time,
        duration=duration,
        thread=trace.threads.numbers(events),
        name=trace.text([e.name or "" for e in events]),
        kind=trace.same(kind, len(events)) if isinstance(kind, str) else kind,
        detail=detail,
    )


def _steps(trace: Trace, events: list[Event], time: NDArray[np.int64], duration: NDArray[np.int64]) -> None:
    for row, event in enumerate(events):
        if event.name and event.name.startswith("ProfilerStep#") and (match := _STEP.fullmatch(event.name)):
            trace.step(int(match[1]), int(time[row]), int(time[row] + duration[row]), event.name)


def _no_details(trace: Trace, events: list[Event]) -> NDArray[np.int32]:
    return trace.same("", len(events))


def _wait(name: str) -> str:
    lower = name.lower()
    return next((kind for word, kind in _WAITS if word in lower), "device")
