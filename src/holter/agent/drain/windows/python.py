"""Converts the files of Python profilers into rows: functions, calls and stacks."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from holter.schema.phases import Mode
from holter.schema.windows import TIMERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from holter.agent.drain.clock import Clock
    from holter.agent.drain.windows import Fact
    from holter.store.parquet.columns import Column, Columns

RUNNING = "(running when the profiler began)"
"""Stands for functions that a part of a step found running, such as the script's own loop: their own time."""
_BETWEEN = ("data_loading", "other")
"""Parts that belong to the mode of the forward pass that follows."""
_MODES = [mode.name.lower() for mode in Mode]
_PARTS = ("data_loading", "forward", "loss", "backward", "optimizer", "checkpoint", "other")


class StackSegment(msgspec.Struct):
    """One part of one step."""

    step: int
    phase: str
    mode: int
    timer: str
    begin: int
    end: int


class _Line(msgspec.Struct):
    names: list[str] = []
    step: int = -1
    phase: str = ""
    mode: int = 1
    timer: str = ""
    begin: int = 0
    end: int = 0
    spent: int = 0
    functions: list[int] = []
    calls: list[int] = []
    dropped: int = 0
    segments: list[StackSegment] = []
    began: int = 0
    stacks: list[list[int]] = []
    samples: list[int] = []


def rows(path: Path, fact: Fact, clock: Clock) -> Mapping[str, Columns]:
    """Read the file of one window; see the contract of this folder."""
    decoder = msgspec.json.Decoder(_Line)
    names: list[str] = []
    parts: list[_Line] = []
    with path.open("rb") as file:
        for text in file:
            line = decoder.decode(text)
            names += line.names
            if line.segments:
                return _stacks(line, names, clock)
            if line.end:
                parts.append(line)
    return _functions(parts, names, clock)


def _functions(parts: list[_Line], names: list[str], clock: Clock) -> dict[str, Columns]:
    """Return `python_functions` and `python_calls`, a block of rows for each part."""
    values = [*names, RUNNING]
    functions, calls = [np.empty((0, 5), np.int64)], [np.empty((0, 6), np.int64)]
    for part in parts:
        table = _matrix(part.functions, 5, names)
        rest = max(part.spent - int(table[:, 4].sum()), 0)
        functions.append(np.vstack([table, [[len(names), 0, 0, part.spent, rest]]]))
        edges = _matrix(part.calls, 6, names)
        if edges.size and not 0 <= edges[:, 1].min() <= edges[:, 1].max() < len(names):
            raise ValueError("a call names a function that is not known")
        calls.append(edges)
    counts = ("calls", "primitive_calls", "total_time", "self_time")
    found, between = _common(parts, functions[1:], clock), _common(parts, calls[1:], clock)
    table, edges = np.vstack(functions), np.vstack(calls)
    found["function"] = (table[:, 0], values)
    found.update({name: table[:, at + 1] for at, name in enumerate(counts)})
    del between["duration"]
    between["caller"], between["function"] = (edges[:, 0], values), (edges[:, 1], values)
    between.update({name: edges[:, at + 2] for at, name in enumerate(counts)})
    return {"python_functions": found, "python_calls": between}


def _stacks(line: _Line, names: list[str], clock: Clock) -> dict[str, Columns]:
    """Return `python_stacks`: samples of one stack in one part are one row."""
    samples = _matrix(line.samples, 2, line.stacks)
    ends = line.began + np.cumsum(samples[:, 1])
    begins = np.array([segment.begin for segment in line.segments], np.int64)
    # A sample stands for the time since the last one; its middle says where it belongs.
    of = np.searchsorted(begins, ends - samples[:, 1] // 2, side="right") - 1
    found: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    for segment, stack, time in zip(of.tolist(), *samples.T.tolist(), strict=True):
        if segment >= 0 and line.stacks[stack]:
            row = found[segment, stack]
            row[0] += 1
            row[1] += time
    texts = [";".join(names[function] for function in stack) for stack in line.stacks]
    modes = _modes(line.segments)
    order = sorted(found)
    parts = [line.segments[segment] for segment, _ in order]
    rows = [found[key] for key in order]
    return {
        "python_stacks": {
            "time": [clock.to_wall(part.begin) for part in parts],
            "duration": [part.end - part.begin for part in parts],
            "step": [part.step for part in parts],
            "mode": [modes[segment] for segment, _ in order],
            "phase": [_known(part.phase, _PARTS) for part in parts],
            "stack": ([stack for _, stack in order], texts),
            "samples": [row[0] for row in rows],
            "self_time": [row[1] for row in rows],
        }
    }


def _common(parts: list[_Line], blocks: list[NDArray[np.int64]], clock: Clock) -> dict[str, Column]:
    """Return the columns that are equal for all rows in the block of a part."""
    part = np.repeat(np.arange(len(parts)), [len(block) for block in blocks])
    times = np.array([(clock.to_wall(one.begin), one.end - one.begin, one.step) for one in parts], np.int64)
    return {
        **dict(zip(("time", "duration", "step"), times.reshape(-1, 3)[part].T, strict=True)),
        "mode": (part, _modes(parts)),
        "phase": (part, [_known(one.phase, _PARTS) for one in parts]),
        "timer": (part, [_known(one.timer, TIMERS) for one in parts]),
    }


def _matrix(flat: list[int], width: int, known: list[Any]) -> NDArray[np.int64]:
    """Return numbers as rows, of which the first is a place in `known`. Raises `ValueError`."""
    matrix = np.array(flat, np.int64).reshape(-1, width)
    if matrix.size and not 0 <= matrix[:, 0].min() <= matrix[:, 0].max() < len(known):
        raise ValueError("a row names something that is not known")
    return matrix


def _modes(parts: Sequence[_Line | StackSegment]) -> list[str]:
    """Return the mode of each part: before a forward pass it is that of the pass."""
    found: list[str] = []
    following: int | None = None
    for part in reversed(parts):
        if part.phase == "forward":
            following = part.mode
        mode = following if part.phase in _BETWEEN and following is not None else part.mode
        found.append(_MODES[mode] if 0 <= mode < len(_MODES) else "global")
        if part.phase in ("backward", "optimizer"):
            following = None
    return found[::-1]


def _known(word: str, valid: tuple[str, ...]) -> str:
    if word not in valid:
        raise ValueError(f"{word!r} is not valid; valid are {', '.join(valid)}")
    return word
