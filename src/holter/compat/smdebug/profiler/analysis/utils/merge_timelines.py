"""`MergedTimeline`: all events of a stretch of time in one trace for a viewer, with the machine's metrics."""

from __future__ import annotations

import contextlib
import json
from enum import Enum
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from holter.compat.smdebug.profiler.algorithm_metrics_reader import AlgorithmMetricsReader
from holter.compat.smdebug.profiler.system_metrics_reader import SystemMetricsReader
from holter.importers.sagemaker.profiler_output import SUFFIXES
from holter.store.urls import place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from holter.schema.table import Table

LOW_GPU_PCT = 85.0
SNAPSHOT_US = 20_000
_LANES = (
    ("Step", 1),
    ("Forward", 10_000),
    ("Backward", 20_000),
    ("DataIterator", 30_000),
    ("Dataset", 40_000),
    ("/device", 50_000),
    ("/host", 60_000),
    ("gpu_functions", 70_000),
    ("cpu_functions", 80_000),
    ("Horovod", 90_000),
)
_OTHER, _SYSTEM = 1_000_000, 2_000_000
DEFAULT_FILTER: Mapping[str, object] = {"lowgpu": ()}


class MergeUnit(Enum):
    """What the ends of a merged stretch are."""

    TIME = "time"
    STEP = "step"


class MergedTimeline:
    """Merges what the files of a profile tell."""

    def __init__(
        self,
        path: str,
        file_suffix_filter: Sequence[str] | None = None,
        output_directory: str | None = None,
    ) -> None:
        """Open a `profiler-output` folder or a job of holter's.

        Args:
            path: Path or URL.
            file_suffix_filter: Only events of files whose names end so; all by default.
            output_directory: Path or URL of the folder to write to; `path` by default.

        Raises:
            TrialNotFound: There is neither.
            ValueError: No file ends as a filter says.
        """
        unknown = [suffix for suffix in file_suffix_filter or () if suffix not in SUFFIXES]
        if unknown:
            raise ValueError(f"file_suffix_filter: {unknown[0]!r}; valid: {', '.join(SUFFIXES)}")
        self.path = str(path)
        self.file_suffix_filter = list(file_suffix_filter or ()) or None
        self.output_directory = str(output_directory or path)
        self._events = AlgorithmMetricsReader(self.path, True)
        self._system = SystemMetricsReader(self.path, True)

    def merge_timeline(
        self,
        start: int,
        end: int,
        unit: MergeUnit = MergeUnit.TIME,
        sys_metrics_filter: Mapping[str, object] | None = DEFAULT_FILTER,
    ) -> str:
        """Write the merged trace of a stretch; returns where it is.

        Args:
            start: Microseconds since the epoch, or a step.
            end: The same; a step ends just before the next one begins.
            unit: Which of both.
            sys_metrics_filter: `{"lowgpu": percent}`: mark moments at which a GPU was used less, 85 % for
                `()`; none: leave the machine's metrics out.

        Raises:
            ValueError: A step is not known, the end is before the start, or there is no event.
        """
        begin, until = self._range(start, end, MergeUnit(unit))
        rows = self._events.source.events(begin, until, self.file_suffix_filter)
        lines = list(_trace(rows))
        if sys_metrics_filter:
            given = sys_metrics_filter.get("lowgpu", ())
            low = float(given) if isinstance(given, int | float) else LOW_GPU_PCT
            lines += _overlay(self._system.source.readings(begin, until), low)
        if not lines:
            raise ValueError(f"nothing was profiled between {begin} and {until} µs in {self.path}")
        metadata = [line for line in lines if line["ph"] == "M"]
        lines = metadata + sorted((line for line in lines if line["ph"] != "M"), key=itemgetter("ts"))
        last = int(rows["end"].max()) if rows.rows else until
        node = (str(rows["node"][0]) if rows.rows else "") or "all"
        name = f"{last}_{node.replace('/', '-')}_merged_timeline.json"
        text = "[\n" + ",\n".join(map(json.dumps, lines)) + "\n]\n"
        where = place(self.output_directory)
        with contextlib.suppress(FileExistsError):
            where.create()
        where.write(name, text.encode())
        return f"{where.url}/{name}"

    def _range(self, start: int, end: int, unit: MergeUnit) -> tuple[int, int]:
        if end < start:
            raise ValueError(f"the end, {end}, is before the start, {start}")
        if unit is MergeUnit.TIME:
            return int(start), int(end)
        asked = self._events.steps_as_time(start, end)
        if asked is None:
            raise ValueError(f"no event tells that it is of step {start}, or of step {end}")
        return asked


def _trace(rows: Table) -> Iterator[dict[str, object]]:
    """Yield events in the words of Chrome's traces: a lane is a phase, its threads are nodes."""
    lanes: dict[str, int] = {}
    threads: dict[tuple[int, str, int], int] = {}
    taken: dict[int, int] = {}
    columns = (rows[name].tolist() for name in ("start", "end", "name", "phase", "node", "tid", "args"))
    for start, end, name, phase, node, tid, args in zip(*columns, strict=True):
        if phase not in lanes:
            block = next((number for word, number in _LANES if phase.startswith(word)), _OTHER)
            lanes[phase] = block + taken.setdefault(block, 0)
            taken[block] += 1
            yield _named("process_name", lanes[phase], {"name": phase})
            yield _named("process_sort_index", lanes[phase], {"sort_index": lanes[phase]})
        lane = lanes[phase]
        thread = threads.get((lane, node, tid))
        if thread is None:
            thread = threads[lane, node, tid] = len(threads) + 1
            yield _named("thread_name", lane, {"name": f"{node} {tid}"}, thread)
        yield {
            "name": name,
            "ph": "X",
            "ts": start,
            "dur": end - start,
            "pid": lane,
            "tid": thread,
            "args": {"node_id": node, **args},
        }


def _overlay(rows: Table, low: float) -> Iterator[dict[str, object]]:
    """Yield the metrics as counters, and marks at which a GPU was little used."""
    if not rows.rows:
        return
    yield _named("process_name", _SYSTEM, {"name": "sys_metrics_bottlenecks"})
    time = rows["time"]
    texts = [rows[name].tolist() for name in ("name", "dimension", "node")]
    names = ["_".join(filter(None, parts)) for parts in zip(*texts, strict=True)]
    values = rows["value"].tolist()
    marked = -SNAPSHOT_US - 1
    for row in np.flatnonzero((rows["dimension"] == "GPUUtilization") & (rows["value"] < low)).tolist():
        at = int(time[row])
        if at - marked <= SNAPSHOT_US:
            continue  # the GPUs of one snapshot are one mark
        marked = at
        near = slice(*np.searchsorted(time, [at - SNAPSHOT_US, at + SNAPSHOT_US + 1]).tolist())
        told = dict(zip(names[near], values[near], strict=True))
        yield _event("sys_metrics_bottlenecks", "i", at, told) | {"s": "g", "tid": 0}
    for at, name, value in zip(time.tolist(), names, values, strict=True):
        yield _event(name, "C", at, {name: value})


def _event(name: str, kind: str, time: int, args: dict[str, object]) -> dict[str, object]:
    return {"name": name, "ph": kind, "ts": time, "pid": _SYSTEM, "args": args}


def _named(what: str, lane: int, args: dict[str, object], thread: int = 0) -> dict[str, object]:
    return {"name": what, "ph": "M", "pid": lane, "tid": thread, "args": args}
