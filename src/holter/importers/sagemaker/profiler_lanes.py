"""The events of one file of SageMaker's profiler, with the lane that each stands in."""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.importers.kineto.event_args import mapping
from holter.importers.kineto.threads import whole, whole_or
from holter.importers.kineto.trace_events import microseconds

if TYPE_CHECKING:
    from holter.importers.kineto.event_args import TraceEvent


Args = dict[str, object]
EVENT = {
    **dict.fromkeys(("start", "end", "lane", "pid", "tid"), np.int64),
    **dict.fromkeys(("name", "phase", "node", "suffix", "kind", "args"), object),
}
"""Columns of events, and their types."""


class Lanes:
    """What a file says of its lanes, which may change on the way; and the slices that are still open."""

    def __init__(self, node: str, suffix: str, base: int, skipped: Counter[str]) -> None:
        self.skipped = skipped
        self._node = node
        self._suffix = suffix
        self._base = base
        self._names: dict[Any, str] = {}
        self._open: defaultdict[Any, list[tuple[TraceEvent, Args]]] = defaultdict(list)

    def take(self, event: TraceEvent) -> tuple[object, ...] | None:
        """Return a row when an event completes one."""
        args = mapping(event.args)
        if event.ph == "M":
            base = args.get("start_time_since_epoch_in_micros")
            self._base = int(base) if isinstance(base, int | float) else self._base
            if event.name == "process_name" and "name" in args:
                self._names[event.pid] = str(args["name"])
            return None
        ts = microseconds(event.ts)
        if ts is None:
            return None
        if event.ph == "X":
            return self._row(event, args, ts, microseconds(event.dur) or 0)
        if event.ph == "B":
            self._open[event.pid].append((event, args))
        elif event.ph == "E":
            if not self._open[event.pid]:
                self.skipped["an end without a begin"] += 1
                return None
            begun, own = self._open[event.pid].pop()
            began = microseconds(begun.ts) or 0
            return self._row(begun, own | args, began, ts - began)
        return None

    def _row(self, event: TraceEvent, args: Args, ts: float, took: float) -> tuple[object, ...] | None:
        """Return the values of the columns `EVENT`."""
        if took < 0:
            self.skipped["an event that ends before it begins"] += 1
            return None
        start = round(ts) + self._base
        phase = self._names.get(event.pid, "Unknown")
        lane = whole_or(event.pid)
        process = whole_or(args.get("pid"), lane)
        thread = whole(args.get("thread_id", args.get("tid", event.tid)))
        if thread is None:
            thread = zlib.crc32(f"{self._node} {phase}".encode())
        who = (lane, process, thread)
        return (
            start,
            start + round(took),
            *who,
            event.name or "",
            phase,
            self._node,
            self._suffix,
            "X",
            args,
        )
