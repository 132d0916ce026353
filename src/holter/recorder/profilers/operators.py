"""Operators and kernels of a window: torch's own profiler collects, its events are kept as columns.

torch takes about a kilobyte for an event, and time for each when it ends. So it is ended and begun again
between two steps whenever a good part has come together: no pause is long, and memory is bounded.

The file: one line of JSON, then one array after the other of `count` native integers, in the order and of the
types that the line names; its `parts` say up to which event each part goes, and when it ended, ns of the wall
clock. Everything that takes longer is done by the agent.
"""

from __future__ import annotations

import os
import sys
import threading
from queue import SimpleQueue
from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.profilers import Unavailable
from holter.recorder.profilers._columns import Columns

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from holter.recorder.profilers import Found
    from holter.recorder.session import Session
    from holter.recorder.window import Window

PART = 50_000
"""Events after which torch's profiler begins anew; four times as many where a device must be waited for."""
FIRST_STEPS = 8
"""Steps of the first part: nobody knows yet how many events a step has."""
WAITING = 4
"""Parts that may wait until the window is over. With more, they are written while it runs."""
_LOG_LEVEL = "KINETO_LOG_LEVEL"


class Profiler:
    """One window of torch.profiler, without its tables and its JSON."""

    def __init__(self, session: Session, window: Window) -> None:
        self._session = session
        self._window = window
        self._torch: Any = sys.modules.get("torch")
        self._device = ""
        self._settings: Any = None
        self._parts: SimpleQueue[Any] = SimpleQueue()
        self._steps, self._every = 0, FIRST_STEPS
        self._writer: threading.Thread | None = None
        self._failed: Exception | None = None
        self._lost = ""
        self._undo: list[Callable[[], None]] = []

    def start(self) -> None:
        """Begin to collect on all threads that compute for this one. Raises `Unavailable`."""
        if self._torch is None:
            raise Unavailable("operators are those of PyTorch, which this process has not imported")
        torch = self._torch
        profiler = torch.autograd.profiler
        if torch._C._autograd._profiler_enabled():
            raise Unavailable("the script runs a profiler of its own")
        self._device = "cuda" if torch.cuda.is_available() and torch.cuda.is_initialized() else ""
        wanted = self._window.parameters
        shapes, stacks = bool(wanted.get("shapes")), bool(wanted.get("stacks"))
        # What torch makes of its profiler differs between versions; only its configuration is used.
        self._settings = profiler.profile(
            record_shapes=shapes,
            with_stack=stacks,
            with_modules=stacks,
            experimental_config=_frugal(torch),
            **({"use_device": self._device} if self._device else {}),
        )
        self._columns = Columns(
            torch._C._autograd._KinetoEvent, device=bool(self._device), shapes=shapes, stacks=stacks
        )
        silent = _LOG_LEVEL not in os.environ
        if silent:
            os.environ[_LOG_LEVEL] = "99"  # else the first window prints into the script's output
        try:
            self._collect()
        finally:
            if silent:
                os.environ.pop(_LOG_LEVEL, None)
        self._give_way(profiler)

    def at_step(self, step: int) -> None:
        """Begin anew where a part has come together."""
        self._steps += 1
        if self._lost or self._steps < self._every:
            return
        part = self._end()
        self._collect()
        if self._every == FIRST_STEPS:
            most = PART * (4 if self._device else 1)
            self._every = max(1, most * FIRST_STEPS // max(len(part[0].events()), 1))
        self._steps = 0
        self._parts.put(part)
        if self._writer is None and self._parts.qsize() > WAITING:
            self._writer = threading.Thread(target=self._take_parts, name="holter-parts", daemon=True)
            self._writer.start()
        self._session.since = perf_counter_ns()  # this is no part of the step that begins

    def stop(self) -> Found | Callable[[], Found]:
        """End; the events are left to be written."""
        if not self._lost:
            self._parts.put(self._end())
        self._parts.put(None)
        self._restore()
        return {"refused": self._lost} if self._lost else self._keep

    def _keep(self) -> dict[str, Any]:
        """Write the events into a file, in the background."""
        if self._writer is None:
            self._take_parts()
        else:
            self._writer.join()
        if self._failed is not None:
            raise self._failed
        name = f"{self._session.process}.{self._window.number}.operators"
        path = self._session.spool.path(name)
        try:
            self._columns.write(path)
        except BaseException:
            if os.path.exists(path):
                os.unlink(path)
            raise
        found: dict[str, Any] = {
            "file": name,
            "events": self._columns.count,
            "device": self._device or "cpu",
        }
        if self._device and not self._columns.on_device:
            found["missing"] = "no kernel was seen: another tool holds CUPTI, or this user may not use it"
        return found

    def _take_parts(self) -> None:
        try:
            while (part := self._parts.get()) is not None:
                result, ended = part
                self._columns.add(result.events(), ended)
        except Exception as error:
            self._failed = error

    def _collect(self) -> None:
        torch = self._torch
        config, activities = self._settings.config(), self._settings.kineto_activities
        torch.autograd._prepare_profiler(config, activities)
        torch.autograd._enable_profiler(config, activities)
        torch.autograd.profiler._run_on_profiler_start()

    def _end(self) -> tuple[Any, int]:
        """End torch's profiler; return what it found, and when."""
        torch = self._torch
        try:
            if self._device:
                torch.cuda.synchronize()  # else what was launched last would be missing
        finally:
            ended = time_ns()
            result = torch.autograd._disable_profiler()
            torch.autograd.profiler._run_on_profiler_stop()
        return result, ended

    def _restore(self) -> None:
        for undo in self._undo:
            undo()
        self._undo.clear()

    def _give_way(self, profiler: ModuleType) -> None:
        """End this window when the script starts a profiler of its own: torch refuses a second one."""
        original = getattr(profiler.profile, "_prepare_trace", None)
        if original is None:
            return
        window = self

        def _prepare_trace(self: Any) -> Any:
            if not window._lost:
                window._lost = "the script started a profiler of its own"
                window._end()
                window._restore()
                window._session.windows.cut_short()
            return original(self)

        profiler.profile._prepare_trace = _prepare_trace

        def undo() -> None:
            profiler.profile._prepare_trace = original

        self._undo.append(undo)


def _frugal(torch: Any) -> Any:
    """Return the setting by which torch does not link kernels to operators, which their times tell anyway."""
    try:
        return torch._C._profiler._ExperimentalConfig(disable_external_correlation=True)
    except (AttributeError, TypeError):  # before torch 2.5
        return None
