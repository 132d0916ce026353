"""Import torchtitan's structured log: one file of JSON lines for each rank and process."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np

from holter.importers.report import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from holter.importers.trace import Trace

FORMAT = "torchtitan-log"
_PHASES = {
    "fetching_batch": "data_loading",
    "fwd_bwd": "compute",
    "optim": "optimizer",
    "checkpoint_save": "checkpoint",
    "eval": "eval",
}
"""Parts of a step by the names of phases; phases with other names are annotations."""
_TAGGED = {"checkpoint_save": "checkpoint_save", "gc_collect": "gc"}
"""Phases of each step in which torchtitan mostly does nothing → the tag of a step in which it does."""
_PAIRED = "event"
"""The type of lines that begin or end a phase."""
_STEP, _OPTIMIZER, _SCALAR = "step", "optim", "metric_value"
_TRAINS = ("training", "trainer")
"""Sources whose ranks are those of the training."""
_MOST_LINE = 1 << 20
_ROWS = 20_000
_LATEST_STEP = 2**31
_LATEST_US = 2**52


class _Line(msgspec.Struct, gc=False):
    """One line. Of a phase, `value` is how long it took, ms."""

    log_type_name: str
    log_type: str
    time_us: Annotated[int, msgspec.Meta(ge=0, le=_LATEST_US)]
    rank: int | None = None
    source: str = ""
    pid: int = 0
    tid: int = 0
    task_name: str | None = None
    step: int | None = None
    step_tags: tuple[str, ...] = ()
    event_name: str | None = None
    value: float | None = None


def recognizes(path: Path) -> bool:
    """Tell by its name and its first line whether a file is a structured log."""
    if not path.name.endswith(".jsonl"):
        return False
    with path.open("rb") as file:
        first = file.readline(_MOST_LINE)
    try:
        msgspec.json.decode(first, type=_Line)
    except (ValueError, RecursionError):
        return False
    return True


def read(path: Path, trace: Trace) -> None:
    """Read a file into a trace.

    Raises:
        UnreadableError: None of its lines is of a structured log.
        OSError: It cannot be opened.
    """
    log = _Log(trace)
    decode = msgspec.json.Decoder(_Line).decode
    with path.open("rb") as file:
        while text := file.readline(_MOST_LINE):
            try:
                line = decode(text)
            except (ValueError, RecursionError):
                trace.skipped["a line without an event"] += 1
                continue
            trace.events += 1
            log.take(line)
            if len(log.spans) >= _ROWS or len(log.scalars) >= _ROWS:
                log.hand_over()
                trace.progress(file.tell())
    if not trace.events:
        raise UnreadableError("none of its lines is an event of a structured log")
    log.close()


class _Log:
    """Pairs begins and ends of phases; hands over steps, spans and numbers."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._open: dict[tuple[int, int, str | None], list[_Line]] = {}
        self._threads: dict[tuple[int, int, str | None], int] = {}
        self._stepped = False
        self._steps = 0
        self._began: int | None = None
        self.spans: list[tuple[int, int, int, str, str]] = []
        """Begin and duration in ns, thread, part, and name."""
        self.scalars: list[tuple[int, str, float]] = []

    def take(self, line: _Line) -> None:
        """Take one line."""
        if self._began is None:
            self._began = line.time_us * 1000
            self._trace.facts["source"] = line.source
            if line.source in _TRAINS and line.rank is not None and 0 <= line.rank < _LATEST_STEP:
                self._trace.rank = line.rank
        if line.log_type_name == _SCALAR:
            if line.event_name and line.value is not None:
                self.scalars.append((line.time_us * 1000, line.event_name, line.value))
        elif line.log_type != _PAIRED:
            self._trace.omitted["instants of the log"] += 1
        elif line.log_type_name.endswith("_start"):
            self._open.setdefault(self._track(line), []).append(line)
        elif line.log_type_name.endswith("_end"):
            self._end(line, line.log_type_name.removesuffix("_end"))
        else:
            self._trace.omitted["errors of phases"] += 1

    def _track(self, line: _Line) -> tuple[int, int, str | None]:
        return line.pid, line.tid, line.task_name

    def _end(self, line: _Line, name: str) -> None:
        track = self._track(line)
        begun = self._open.get(track)
        if not begun or begun[-1].log_type_name != f"{name}_start":
            self._trace.skipped["the end of a phase that did not begin"] += 1
            return
        begin = begun.pop().time_us * 1000
        took = line.value
        if took is not None and math.isfinite(took) and 0 <= took < 1e12:
            duration = round(took * 1e6)
        else:
            duration = max(line.time_us * 1000 - begin, 0)
        if name == _STEP:
            self._end_step(line, begin, duration, track)
            return
        if name in _TAGGED and _TAGGED[name] not in line.step_tags:
            self._trace.omitted["phases in which nothing was to do"] += 1
            return
        self._stepped = self._stepped or name == _OPTIMIZER
        thread = self._threads.setdefault(track, len(self._threads))
        self.spans.append((begin, duration, min(thread, 2**15 - 1), _PHASES.get(name, "annotation"), name))

    def _end_step(self, line: _Line, begin: int, duration: int, track: tuple[int, int, str | None]) -> None:
        stepped, self._stepped = self._stepped, False
        if not stepped:
            self._trace.omitted["steps without an update, for which the data ran out"] += 1
        elif line.step is not None and 0 <= line.step < _LATEST_STEP:
            self._steps += 1
            self._trace.step(line.step, begin, begin + duration, "")

    def hand_over(self) -> None:
        """Hand the rows so far to the trace."""
        trace = self._trace
        if self.spans:
            begin, duration, thread, part, name = _columns(self.spans)
            trace.append(
                "spans",
                time=np.array(begin, np.int64),
                duration=np.array(duration, np.int64),
                worker=np.full(len(begin), -1, np.int16),
                thread=np.array(thread, np.int16),
                mode=trace.text(["eval" if one == "eval" else "train" for one in part]),
                phase=trace.text(part),
                name=trace.text(name),
                value=np.full(len(begin), np.nan),
            )
        if self.scalars:
            time, name, value = _columns(self.scalars)
            trace.append(
                "scalars",
                time=np.array(time, np.int64),
                mode=trace.same("train", len(time)),
                name=trace.text(name),
                value=np.array(value, np.float64),
            )
        self.spans, self.scalars = [], []

    def close(self) -> None:
        """Hand over the rest, and who counts the steps."""
        self.hand_over()
        unended = sum(map(len, self._open.values()))
        if unended:
            self._trace.notes.append(f"{unended} phases do not end: the log is of a process that was stopped")
        if self._steps and self._began is not None:
            parts = sorted({*_PHASES.values(), "other"})
            told = {"framework": {"name": "torchtitan", "parts": parts}, "owner": {"owner": "torchtitan"}}
            self._trace.append(
                "events",
                time=np.full(len(told), self._began, np.int64),
                kind=self._trace.text(list(told)),
                name=self._trace.same("torchtitan", len(told)),
                detail=self._trace.text([json.dumps(one) for one in told.values()]),
            )


def _columns(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]
