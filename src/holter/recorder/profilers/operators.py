"""Collects operators and kernels of a window with torch's profiler.

When torch's profiler ends, it takes some microseconds for each event and holds the interpreter, so the
training waits. It is configured to omit unused data: links between events and, where possible, Python
objects. The columns of the file are made while the training continues.
"""

from __future__ import annotations

import os
import sys
from mmap import PAGESIZE
from threading import Event, get_ident
from typing import TYPE_CHECKING, Any

from holter.recorder.profilers import Later, ProfilerUnavailable, _events

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from holter.recorder.profilers import Found
    from holter.recorder.profiling_window import ProfilingWindow, WindowSession

MAX_GROWTH = 2 << 30
"""Bytes by which the process may grow in a window at most; fewer if little memory is free."""
_MIN_GROWTH = 64 << 20
"""Bytes that a window may always take: a training also grows while it begins."""
_AT_THE_END = 5
"""Memory at the end, relative to the window: an event takes 230 bytes in the window, and 1,100 at the end."""
_LOG_LEVEL = "KINETO_LOG_LEVEL"
_PATIENCE_S = 1.0
"""How long the script's own profiler waits for a window of another thread to end; torch has one at a time."""
_GROUPS = (
    ("/sys/fs/cgroup", "memory.max", "memory.current", (b"inactive_file", b"active_file")),
    (
        "/sys/fs/cgroup/memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        (b"total_inactive_file", b"total_active_file"),
    ),
)
"""Files of a container's control group, versions 2 and 1: limit, use, and cached files within the use."""


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
        """Whether torch makes activities only, without events."""
        self._result: Any = None
        self._events: list[Any] = []
        self._grown_from = self._most = 0
        self._cut = ""
        self._lost = ""
        self._undo: list[Callable[[], None]] = []
        self._thread = get_ident()
        self._over = Event()

    def start(self) -> None:
        """Begin to collect on the thread that trains. Raises `Later` and `ProfilerUnavailable`."""
        if self._torch is None:
            libraries = "PyTorch, JAX and TensorFlow"
            raise ProfilerUnavailable(f"operators are those of {libraries}; this process uses none of them")
        torch = self._torch
        # The first tells of this thread, the second of all threads, since torch 2.1.
        others = getattr(torch.autograd.profiler, "_is_profiler_enabled", False)
        if torch._C._autograd._profiler_enabled() or others:
            raise ProfilerUnavailable("the script runs a profiler of its own")
        self._device = "cuda" if torch.cuda.is_available() and torch.cuda.is_initialized() else ""
        # An operation must not begin in one window and end in the next: torch would write to freed memory.
        if self._session.windows.ended == ("operators", self._window.first_step):
            raise Later
        self._begin()
        torch.autograd.profiler._run_on_profiler_start()
        self._give_way(torch.autograd.profiler)

    def _begin(self) -> None:
        """Begin torch's profiler."""
        torch = self._torch
        # The profiler class differs between versions of torch, so only its configuration is used.
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
        # Half of the free memory stays for the training.
        self._most = min(MAX_GROWTH, max(_MIN_GROWTH, available() // (2 * _AT_THE_END)))

    def at_step(self, step: int) -> None:
        """End the window early if it has taken too much memory."""
        if not self._cut and resident() - self._grown_from > self._most:
            most = f"{self._most / 2**30:.2g} GiB of memory"
            self._cut = f"it had taken {most}, and takes {_AT_THE_END} times as much when it ends"
            self._session.windows.cut_short()

    def stop(self) -> Found | Callable[[], Found]:
        """End; return the function that writes the events."""
        if not self._over.is_set():
            self._synchronize()
            self._end()
        if self._lost:
            self.forget()
            return {"refused": self._lost}
        return self._keep

    def _keep(self) -> Found:
        """Write the events into a file, in the background."""
        name = f"{self._session.process}.{self._window.number}.operators"
        path = self._session.spool.path(name)
        try:
            self._events = self._result.trace_activities() if self._traced else self._result.events()
            found: dict[str, object] = {
                "file": name,
                "device": self._device or "cpu",
                "events": len(self._events),
            }
            on_device = _events.write(
                path,
                self._events,
                traced=self._traced,
                device=bool(self._device),
                shapes=self._shapes,
                stacks=self._stacks,
            )
        except BaseException:
            if os.path.exists(path):
                os.unlink(path)
            raise
        if self._device and not on_device:
            found["missing"] = "no kernel was seen: another tool holds CUPTI, or this user may not use it"
        if self._cut:
            found["cut"] = self._cut
        return found

    def forget(self) -> None:
        """Free the events, which takes torch a second for a million events."""
        _events.free(self._events)
        self._result = None

    def _synchronize(self) -> None:
        if self._device:
            self._torch.cuda.synchronize()  # else the last launched kernels would be missing

    def _end(self) -> None:
        torch = self._torch
        try:
            self._result = _ended(torch)
            torch.autograd.profiler._run_on_profiler_stop()
        finally:
            self._over.set()
            for undo in self._undo:
                undo()
            self._undo.clear()

    def _give_way(self, profiler: ModuleType) -> None:
        """End this window when the script starts its own profiler: torch refuses a second one."""
        original = getattr(profiler.profile, "_prepare_trace", None)
        if original is None:
            return
        window = self

        def _prepare_trace(self: Any) -> Any:
            if not window._lost:
                window._lost = "the script started a profiler of its own"
                if get_ident() == window._thread:
                    window._synchronize()
                    window._end()
                    window.forget()
                window._session.windows.cut_short()
                # Only the thread that began a profiler can end it. It does so when its step ends.
                window._over.wait(_PATIENCE_S)
            return original(self)

        profiler.profile._prepare_trace = _prepare_trace

        def undo() -> None:
            profiler.profile._prepare_trace = original

        self._undo.append(undo)


def _ended(torch: Any) -> Any:
    """End torch's profiler; return its result."""
    link = getattr(torch._C._profiler, "_set_fwd_bwd_enabled_val", lambda _: None)
    try:
        link(False)  # a sixth of the work, and unused
        return torch.autograd._disable_profiler()
    finally:
        link(True)


def _frugal(torch: Any, *, stacks: bool, shapes: bool) -> tuple[Any, bool]:
    """Return a configuration without links from kernels to operators, which follow from their times.

    Without stacks and shapes, torch makes activities only, if its version can; then the second value is true.
    torch collects on the calling thread, and on the threads to which torch itself gives its work, such as
    those of autograd. `profile_all_threads` would let it write into freed memory when another thread runs an
    operator while the window ends (pytorch#185741).
    """
    settings: list[dict[str, bool]] = [{}]
    if not stacks and not shapes and hasattr(torch._C._autograd._ProfilerResult, "trace_activities"):
        settings.insert(0, {"trace_only": True})
    for more in settings:
        try:
            made = torch._C._profiler._ExperimentalConfig(disable_external_correlation=True, **more)
        except (AttributeError, TypeError):  # before torch 2.13, before 2.5
            continue
        return made, "trace_only" in more
    return None, False


def resident() -> int:
    """Return the resident memory of this process in bytes."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * PAGESIZE


def available() -> int:
    """Return the free memory of the machine, or of its container if that has less, in bytes."""
    found = [os.sysconf("SC_AVPHYS_PAGES") * PAGESIZE]
    found = [size << 10 for size in _numbers("/proc/meminfo", (b"MemAvailable:",))] or found
    for folder, limit, used, kept in _GROUPS:
        try:
            with open(f"{folder}/{limit}", "rb") as most, open(f"{folder}/{used}", "rb") as now:
                left = int(most.read()) - int(now.read())
            found.append(left + sum(_numbers(f"{folder}/memory.stat", kept)))
        except (OSError, ValueError):  # no such file; no limit, which is the word "max"
            continue
    return max(0, min(found))


def _numbers(path: str, names: tuple[bytes, ...]) -> list[int]:
    try:
        with open(path, "rb") as lines:
            words = [line.split() for line in lines]
    except OSError:
        return []
    return [int(one[1]) for one in words if one[0] in names]


PROFILER = OperatorProfiler
