"""Converts a window of the profiler of JAX or TensorFlow into rows of operators, kernels and copies."""

from __future__ import annotations

import mmap
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.agent.drain.windows.operators import collective, copy_kind
from holter.schema.protobuf import content, fields
from holter.schema.xplane import COPY, PLANES, RELATIVE, SIZE, STREAM, Line, Plane

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holter.agent.drain.clock import Clock
    from holter.agent.drain.windows import Fact
    from holter.schema.xplane import Event
    from holter.store.parquet.columns import Columns

_EAGER = re.compile(r"EagerLocalExecute: (?!__)(\w+)")
"""An operation of TensorFlow outside of functions."""
_IN_GRAPH = re.compile(r"(?!TFE_|Eager|Executor|FunctionRun|ValidateInput)_?[A-Z]\w*")
"""An operation of a function of TensorFlow. What else begins with a capital letter has colons or blanks."""
_CALL = re.compile(r"PjitFunction\((.+)\)")
"""A call of a compiled function of JAX. Its program is called `jit_` and the same name."""
_DIRECTION = re.compile(r"([HDP])2([HDP])")
"""In names of copies, such as MemcpyH2D."""
_UNSEEN = ("end: ", "ThreadpoolListener::", "MemoryAllocation", "MemoryDeallocation")
"""Marks without a duration."""
_Row = dict[str, Any]


def rows(path: Path, fact: Fact, clock: Clock) -> dict[str, Columns]:
    """Return columns by table, without `rank`. Raises `ValueError` for a file that is damaged or empty."""
    if not path.stat().st_size:
        raise ValueError("the profiler returned an empty trace")
    with path.open("rb") as file:
        space = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    planes = [Plane(content(value)) for number, value in fields(space) if number == PLANES]
    began = next((plane.began for plane in planes if plane.began), 0)
    found: dict[str, list[_Row]] = defaultdict(list)
    calls: dict[str, list[int]] = defaultdict(list)
    first, last, waited = fact.bounds[0], fact.bounds[-1], fact.bounds[-1] + fact.stop_ns
    for plane in planes:
        graphs = any(name.startswith(("TFE_", "ExecutorState::")) for name in plane.event_names.values())
        for data in plane.lines():
            line = Line(plane, data)
            # From the time of day to the clock of the recorder.
            line.start += (began if line.start < RELATIVE else 0) - fact.wall_minus_monotonic
            for table, row in _host(line, calls, graphs) if plane.device is None else _device(line, plane):
                begin, end = row["time"], row["time"] + row["duration"]
                if row.get("kind") == "operator" or table in ("kernels", "memory_operations"):
                    if first < end and begin < waited:
                        found[table].append(row)
                elif begin < last and end > first:
                    begin = max(begin, first)
                    found[table].append({**row, "time": begin, "duration": min(end, last) - begin})
    if not found:
        raise ValueError("the trace has no events of these steps")
    _place_steps(found, fact, calls)
    return {table: _columns(listed, clock) for table, listed in found.items()}


def _host(line: Line, calls: dict[str, list[int]], graphs: bool) -> Iterator[tuple[str, _Row]]:
    """Yield what a thread of the host did; add the moments at which it called programs to `calls`.

    `graphs` says whether TensorFlow has computed there, whose operations carry no mark.
    """
    called = 0
    for event in sorted(line.events(), key=lambda event: event.time):
        if event.name.startswith(_UNSEEN):
            continue
        call = _CALL.fullmatch(event.name)
        if call is not None and event.time >= called:  # one lies within another of the same name
            called = event.time + event.duration
            calls[f"jit_{call[1]}"].append(event.time)
        row: _Row = {"time": event.time, "duration": event.duration, "thread": line.number}
        if correlation := event.stats.get("correlation_id"):
            yield "launches", {**row, "name": event.name, "correlation": _number(correlation)}
        else:
            name, kind = _named(event, graphs)
            row |= {"name": name, "kind": kind, "detail": ""}
            if "run_id" in event.stats and "hlo_module" in event.stats:
                row["run"] = event.stats["hlo_module"], event.stats["run_id"]
            yield "operators", row


def _named(event: Event, graphs: bool) -> tuple[str, str]:
    """Return name and kind of an event of the host."""
    if "hlo_op" in event.stats:
        return event.name, "operator"
    if graphs and (eager := _EAGER.fullmatch(event.name)):
        return eager[1], "operator"
    if graphs and _IN_GRAPH.fullmatch(event.name):
        return event.name, "operator"
    return event.name, "annotation" if "step_num" in event.stats else "runtime"


def _device(line: Line, plane: Plane) -> Iterator[tuple[str, _Row]]:
    """Yield what a stream of a device did; other lines repeat it as modules, steps and names."""
    stream = STREAM.match(line.name)
    if stream is None and (line.name != "XLA Ops" or "GPU" in plane.name):
        return
    for event in line.events():
        row: _Row = {
            "time": event.time,
            "duration": event.duration,
            "device": plane.device,
            "stream": int(stream[1]) if stream else line.number,
            "correlation": _number(event.stats.get("correlation_id", 0)),
        }
        if COPY.search(event.name):
            detail = str(event.stats.get("memcpy_details", event.stats.get("memset_details", "")))
            size = SIZE.search(detail)
            kind, _ = copy_kind(_DIRECTION.sub(r"\1to\2", event.name))
            memory = next((word for word in ("pageable", "pinned") if word in detail), "")
            moved = int(size[1][:15]) if size else 0
            yield "memory_operations", {**row, "kind": kind, "memory": memory, "bytes": moved}
        else:
            which = collective(event.name)
            kind = "communication" if which else "compute"
            yield "kernels", {**row, "name": event.name, "kind": kind, "collective": which}


def _place_steps(found: dict[str, list[_Row]], fact: Fact, calls: dict[str, list[int]]) -> None:
    """Give each row its step: computation belongs to the step that called it, and may run much later."""
    operators = found.pop("operators", [])
    called = _called(operators, calls)
    if kept := [row for row in operators if called.get(row.get("run"), 0) is not None]:
        found["operators"] = kept
    launched: dict[int, int] = {}
    for table in ("operators", "launches", "kernels", "memory_operations"):
        listed = found.get(table, [])
        moments = [called.get(row.pop("run", None)) or row["time"] for row in listed]
        steps = fact.steps(np.array(moments, np.int64)).tolist()
        for row, step in zip(listed, steps, strict=True):
            row["step"] = launched.get(row["correlation"], step) if "device" in row else step
            if table == "launches":
                launched[row["correlation"]] = step


def _called(operators: list[_Row], calls: dict[str, list[int]]) -> dict[Any, int | None]:
    """Return when each run of a program was called; None before the trace began.

    Runs are numbered in the order of the calls. The newest run is that of the newest call, because a window
    ends when the device has computed what was called in it.
    """
    runs: dict[str, set[int]] = defaultdict(set)
    for row in operators:
        if "run" in row:
            runs[row["run"][0]].add(row["run"][1])
    called: dict[Any, int | None] = {}
    for program, numbers in runs.items():
        if moments := sorted(calls.get(program, ())):
            for back, number in enumerate(sorted(numbers, reverse=True), 1):
                called[program, number] = moments[-back] if back <= len(moments) else None
    return called


def _columns(listed: list[_Row], clock: Clock) -> Columns:
    listed.sort(key=lambda row: row["time"])
    columns: dict[str, Any] = {name: [row[name] for row in listed] for name in listed[0]}
    columns["time"] = np.array(columns["time"], np.int64) + clock.offset
    return columns


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
