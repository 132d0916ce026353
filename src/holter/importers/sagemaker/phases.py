"""Reads steps and their phases in the events of SageMaker's hook for PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from holter.importers.kineto.event_args import decode_args
from holter.importers.kineto.threads import whole
from holter.importers.kineto.trace_events import microseconds
from holter.schema.phases import ITERATOR_START, NEXT_BATCH

if TYPE_CHECKING:
    from holter.importers.kineto.event_args import TraceEvent
    from holter.importers.trace import Trace

_STEP = "Step:ModeKeys."
_PHASES = {
    "Forward": "forward",
    "Backward(post-forward)": "backward",
    "Optimizer": "optimizer",
    "Collective": "communication",
    "DataLoaderIter": "data_loading",
    "DataLoaderIterInitialize": "data_loading",
}
_LOADING = {"DataLoaderIter": NEXT_BATCH, "DataLoaderIterInitialize": ITERATOR_START}


class _Args(msgspec.Struct, gc=False):
    name: str | None = None
    step: int | str | None = msgspec.field(default=None, name="step_num")


class Phases:
    """Takes steps and their parts out of the events of one file; what it does not know stays there."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._names: dict[Any, str] = {}
        self._parts: list[tuple[float, float, str, str]] = []
        self._steps: list[tuple[float, float, str, int]] = []

    def rest(self, events: list[TraceEvent]) -> list[TraceEvent]:
        """Return the events that are neither."""
        kept = []
        for event, args in zip(events, decode_args(events, _Args), strict=True):
            if event.ph == "M" and event.name == "process_name" and args.name is not None:
                self._names[event.pid] = args.name
            if not self._take(event, args):
                kept.append(event)
        return kept

    def _take(self, event: TraceEvent, args: _Args) -> bool:
        phase = self._names.get(event.pid, "")
        ts, took = microseconds(event.ts), microseconds(event.dur)
        if event.ph != "X" or ts is None or not took or took < 0:
            return False
        if phase == "DataLoaderWorker":
            self._trace.omitted["lives of data-loader workers"] += 1
            return True
        if phase.startswith(_STEP) and (number := whole(args.step)) is not None and 0 <= number < 2**31:
            mode = phase.removeprefix(_STEP).lower()
            self._steps.append((ts, ts + took, mode, number))
            return True
        if phase in _PHASES:
            name = _LOADING.get(phase, event.name or "")
            self._parts.append((ts, took, _PHASES[phase], name))
            return True
        return False

    def close(self) -> None:
        """Hand over what was found. A step of ours begins where the one before ended: it loads its data."""
        before: float | None = None
        for begin, end, mode, number in sorted(self._steps):
            since = begin if before is None else min(begin, before)
            self._trace.step(number, round(since * 1000), round(end * 1000), f"{_STEP}{mode.upper()}", mode)
            before = end if before is None else max(before, end)
        if not self._parts:
            return
        begins, took, phases, names = zip(*sorted(self._parts), strict=True)
        self._trace.append(
            "spans",
            time=np.array([round(begin * 1000) for begin in begins], np.int64),
            duration=np.array([round(length * 1000) for length in took], np.int64),
            worker=np.full(len(begins), -1, np.int16),
            thread=np.zeros(len(begins), np.int16),
            mode=self._trace.same("train", len(begins)),
            phase=self._trace.text(phases),
            name=self._trace.text(names),
            value=np.zeros(len(begins), np.float64),
        )
