"""Profiles the Python code of the training thread: cProfile for calls, pyinstrument for samples.

The profiles are cut where parts of a step begin and end, so that users can select them by step and by part.
The file contains one JSON document per line; `holter.agent.drain.windows.python` reads it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from holter.recorder.profilers import ProfilerUnavailable
from holter.recorder.profilers._cprofile import CallProfile, ProfileSegment
from holter.recorder.profilers._pyinstrument import StackSamples
from holter.recorder.sampling.frames import cell_text
from holter.recorder.spool.thread_spool import TRAIN
from holter.schema.windows import PYTHON, TIMERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.profilers import Found
    from holter.recorder.profiling_window import ProfilingWindow, WindowSession

OTHER, LOSS = "other", "loss"
"""Parts of a step between two others: the loss follows a forward pass."""
CYCLE = ("total_time", "cpu_time", "off_cpu_time")
"""Timers that `default` uses in turn, one for each step."""


class PythonProfiler:
    """A window of one of the two profilers."""

    def __init__(self, session: WindowSession, window: ProfilingWindow) -> None:
        self._session, self._window = session, window
        parameters = window.parameters
        self._kind = str(parameters.get("profiler", PYTHON[0]))
        self._timer = str(parameters.get("timer", TIMERS[0]))
        for word, valid in ((self._kind, PYTHON), (self._timer, TIMERS)):
            if word not in valid:
                raise ProfilerUnavailable(f"no {word!r} for Python; valid: {', '.join(valid)}")
        self._step = window.first_step
        self._mode = TRAIN
        self._open: list[str] = []
        self._segment: ProfileSegment | None = None
        self._names: dict[Any, int] = {}
        self._unnamed: list[str] = []
        self._unwatch: Callable[[], None] | None = None
        self._file = f"{session.process}.{window.number}.python"
        self._fault: Exception | None = None

    def start(self) -> None:
        """Begin; raises `ProfilerUnavailable` for another active profiler, or without pyinstrument."""
        other = sys.getprofile()
        if other is not None:
            raise ProfilerUnavailable(f"another profiler is at work: {type(other).__name__}")
        self._engine = CallProfile() if self._kind == PYTHON[0] else StackSamples()
        self._engine.start()
        watch = self._session.watch_phases
        try:
            if watch is not None:
                self._unwatch = watch(self._on_phase)
            self._cut(OTHER)
            if self._fault is not None:
                raise self._fault
        except BaseException:
            self.leave()
            raise
        _running.append(self)

    def at_step(self, step: int) -> None:
        """Cut the profile at the begin of a step."""
        self._step = step
        if self._fault is None:
            self._cut(self._open[-1] if self._open else OTHER)

    def stop(self) -> Callable[[], Found]:
        """End; return the function that writes the file."""
        self._cut(None)
        self.leave()
        if self._fault is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._session.spool.path(self._file))
            raise self._fault
        return self._finish

    def _finish(self) -> Found:
        self._write()
        return {"file": self._file, "python": self._kind}

    def leave(self) -> None:
        """Remove every hook."""
        if self in _running:
            _running.remove(self)
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None
        self._engine.stop()

    def _on_phase(self, part: str, begins: bool, mode: int | None) -> None:
        """Cut the profile at the begin or end of a part of a step; of nested parts the innermost counts."""
        if self._fault is not None:
            return
        if begins:
            self._open.append(part)
            self._cut(part)
            return
        while self._open and self._open.pop() != part:
            pass  # a part that raised, without a recorded end
        if mode is not None:
            self._mode = mode
            if self._segment is not None:
                self._segment.mode = mode
        self._cut(self._open[-1] if self._open else LOSS if part == "forward" else OTHER)

    def _cut(self, phase: str | None) -> None:
        try:
            self._engine.cut(None)
            if self._segment is not None:
                self._segment.end = time.perf_counter_ns()
            segment = None
            if phase is not None:
                timer = self._timer
                if timer == TIMERS[-1]:
                    timer = CYCLE[(self._step - self._window.first_step) % len(CYCLE)]
                segment = ProfileSegment(self._step, phase, self._mode, timer)
            if self._engine.full():
                self._write()
            if segment is not None:
                segment.begin = time.perf_counter_ns()
                self._engine.cut(segment)
            self._segment = segment
        except Exception as error:
            self._fault = error  # reported when the window ends with the next step
            self._session.windows.cut_short()
            self._segment = None
            self.leave()

    # -- the file

    def _write(self) -> None:
        path = self._session.spool.path(self._file)
        with open(path, "a", encoding="utf-8") as file:
            for document in self._engine.documents(self._name):
                names, self._unnamed = self._unnamed, []
                file.write(json.dumps({"names": names, **document}, separators=(",", ":")) + "\n")

    def _name(self, function: Any) -> int:
        """Return the number of a function, a code object or a name."""
        number = self._names.get(function)
        if number is None:
            number = self._names[function] = len(self._names)
            self._unnamed.append(function if isinstance(function, str) else name_of(function))
        return number


def name_of(code: Any) -> str:
    """Return `qualname (file:line)` of a code object."""
    name = getattr(code, "co_qualname", code.co_name)  # from Python 3.11 on
    return f"{name} ({cell_text(code.co_filename) or code.co_filename}:{code.co_firstlineno})"


_running: list[PythonProfiler] = []


def _after_fork_in_child() -> None:
    """Remove the profilers of the parent process: workers of data loaders are not profiled."""
    for profiler in tuple(_running):
        profiler.leave()


os.register_at_fork(after_in_child=_after_fork_in_child)


PROFILER = PythonProfiler
