"""Collects operators and kernels of a window with torch's profiler.

When torch's profiler ends it works some microseconds on each event and keeps the interpreter meanwhile, so no
thread of ours could do that beside the training. It leaves out unused data: links between events and,
where it can be, objects for Python. Columns of what it found are made beside the training.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from holter.recorder.profilers import Later, ProfilerUnavailable, _events
from holter.recorder.profilers._memory import available, resident

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from holter.recorder.profilers import Found
    from holter.recorder.profiling_window import ProfilingWindow, WindowSession

MAX_GROWTH = 2 << 30
"""Bytes by which the process may grow in a window, at most; fewer where little memory is left."""
_MIN_GROWTH = 64 << 20
"""So many always: a training takes some itself while it begins."""
_AT_THE_END = 5
"""How many times that torch takes when it ends: 230 bytes for an event while it collects, 1,100 more then."""
_LOG_LEVEL = "KINETO_LOG_LEVEL"


class OperatorProfiler:
    """One window of torch.profiler, without its tables and its JSON."""

    def __init__(self, session: WindowSession, window: ProfilingWindow) -> None:
        self._session = session
        self._window = window
        self._shapes = bool(window.parameters.get("shapes"))
        self._stacks = bool(window.parameters.get("stacks"))
        self._torch: Any = sys.modules.get("torch")
        self._device = ""
        self._traced = False
        """Whether torch makes no events, but activities alone."""
        self._result: Any = None
        self._events: list[Any] = []
        self._grown_from = self._most = 0
        self._cut = ""
        self._lost = ""
        self._undo: list[Callable[[], None]] = []

    def start(self) -> None:
        """Begin to collect on all threads that compute for this one. Raises `Later` and `Unavailable`."""
        if self._torch is None:
            raise ProfilerUnavailable("operators are those of PyTorch, which this process has not imported")
        torch = self._torch
        if torch._C._autograd._profiler_enabled():
            raise ProfilerUnavailable("the script runs a profiler of its own")
        self._device = "cuda" if torch.cuda.is_available() and torch.cuda.is_initialized() else ""
        # What torch's profiler saw begin must not end under its next: torch would write to freed memory.
        if self._session.windows.ended == ("operators", self._window.first_step):
            raise Later
        self._begin()
        torch.autograd.profiler._run_on_profiler_start()
        self._give_way(torch.autograd.profiler)

    def _begin(self) -> None:
        """Begin torch's profiler."""
        torch = self._torch
        # What torch makes of its profiler differs between versions; only its configuration is used.
        frugal, self._traced = _frugal(torch, stacks=self._stacks, shapes=self._shapes)
        settings = torch.autograd.profiler.profile(
            record_shapes=self._shapes,
            with_stack=self._stacks,
            with_modules=self._stacks,
            experimental_config=frugal,
            **({"use_device": self._device} if self._device else {}),
        )
        silent = _LOG_LEVEL not in os.environ
        if silent:
            os.environ[_LOG_LEVEL] = "99"  # else the first window prints into the script's output
        try:
            config, activities = settings.config(), settings.kineto_activities
            torch.autograd._prepare_profiler(config, activities)
            torch.autograd._enable_profiler(config, activities)
        finally:
            if silent:
                os.environ.pop(_LOG_LEVEL, None)
        self._grown_from = resident()
        # Half of what is left stays the training's.
        self._most = min(MAX_GROWTH, max(_MIN_GROWTH, available() // (2 * _AT_THE_END)))

    def at_step(self, step: int) -> None:
        """End early what has taken too much memory."""
        if not self._cut and resident() - self._grown_from > self._most:
            most = f"{self._most / 2**30:.2g} GiB of memory"
            self._cut = f"it had taken {most}, and takes {_AT_THE_END} times as much when it ends"
            self._session.windows.cut_short()

    def stop(self) -> Found | Callable[[], Found]:
        """End; the events are left to be written."""
        if self._lost:
            return {"refused": self._lost}
        self._synchronize()
        self._end()
        return self._keep

    def _keep(self) -> dict[str, Any]:
        """Write the events into a file, in the background."""
        name = f"{self._session.process}.{self._window.number}.operators"
        path = self._session.spool.path(name)
        found: dict[str, Any] = {"file": name, "device": self._device or "cpu"}
        try:
            found |= self._write(path)
        except BaseException:
            if os.path.exists(path):
                os.unlink(path)
            raise
        if self._cut:
            found["cut"] = self._cut
        return found

    def _write(self, path: str) -> dict[str, Any]:
        self._events = _events.listed(self._result, traced=self._traced)
        wrote = _events.write(
            path,
            self._events,
            traced=self._traced,
            device=bool(self._device),
            shapes=self._shapes,
            stacks=self._stacks,
        )
        if self._device and not wrote.on_device:
            missing = "no kernel was seen: another tool holds CUPTI, or this user may not use it"
            return {"events": wrote.events, "missing": missing}
        return {"events": wrote.events}

    def forget(self) -> None:
        """Free what was found, for torch's a second's work for a million events, once the agent was told."""
        _events.free(self._events)
        self._result = None

    def _synchronize(self) -> None:
        if self._device:
            self._torch.cuda.synchronize()  # else what was launched last would be missing

    def _end(self) -> None:
        torch = self._torch
        try:
            self._result = _ended(torch)
            torch.autograd.profiler._run_on_profiler_stop()
        finally:
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
                window._synchronize()
                window._end()
                window.forget()
                window._session.windows.cut_short()
            return original(self)

        profiler.profile._prepare_trace = _prepare_trace

        def undo() -> None:
            profiler.profile._prepare_trace = original

        self._undo.append(undo)


def _ended(torch: Any) -> Any:
    """End torch's profiler; return its result."""
    link = getattr(torch._C._profiler, "_set_fwd_bwd_enabled_val", lambda _: None)
    try:
        link(False)  # a sixth of the work, and nobody asks for it
        return torch.autograd._disable_profiler()
    finally:
        link(True)


def _frugal(torch: Any, *, stacks: bool, shapes: bool) -> tuple[Any, bool]:
    """Return the setting by which torch does not link kernels to operators, which their times tell anyway.

    Without stacks it collects for all threads, and without shapes either it makes no events of its own, each
    where it can; the second value says whether it makes none.
    """
    settings: list[dict[str, bool]] = [{}]
    if not stacks:
        settings.insert(0, {"profile_all_threads": True})
        if not shapes and hasattr(torch._C._autograd._ProfilerResult, "trace_activities"):
            settings.insert(0, {"profile_all_threads": True, "trace_only": True})
    for more in settings:
        try:
            made = torch._C._profiler._ExperimentalConfig(disable_external_correlation=True, **more)
        except (AttributeError, TypeError):  # before torch 2.13, before 2.7, before 2.5
            continue
        return made, "trace_only" in more
    return None, False


PROFILER = OperatorProfiler
