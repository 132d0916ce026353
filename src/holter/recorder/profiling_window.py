"""Profiling windows of a process: those that wait, those that have begun, and the session that they need."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holter.recorder.identity import Identity
    from holter.recorder.spool.files import Spool
    from holter.schema.windows import Request


class WindowSchedule(Protocol):
    """The windows of a session, as profilers see them."""

    ended: tuple[str, int] | None
    """The profiler of the last window that is over, and the step that began then."""

    def cut_short(self) -> None:
        """Let the next step boundary end the window that runs."""


class WindowSession(Protocol):
    """The session that windows and profilers belong to."""

    identity: Identity
    spool: Spool
    step: int
    stride: int
    since: int
    wake: memoryview
    sticky: dict[str, Any]
    watch_phases: Callable[..., Any] | None
    step_owner: str
    wait_for_device: Callable[[], None]

    @property
    def process(self) -> str:
        """Key of the process."""

    @property
    def windows(self) -> WindowSchedule:
        """The windows of the process."""

    def fault(self, where: str, error: BaseException) -> None:
        """Count a fault of the recorder."""

    def journal(self, kind: str, fact: object) -> None:
        """Note a rare fact."""


@dataclass(frozen=True, slots=True)
class ProfilingWindow:
    """One window that has begun, for the rank that it was asked for."""

    number: int
    """From 1, in this process."""
    profiler: str
    first_step: int
    last_step: int | None
    """The step before which it ends; None when the clock ends it."""
    until_ns: int | None
    """Monotonic ns from which on the next step boundary ends it."""
    parameters: Mapping[str, object] = field(default_factory=dict)

    def over(self, step: int, now: int) -> bool:
        """Whether it ends before `step`, which begins at the monotonic time `now`."""
        last, until = self.last_step, self.until_ns
        return (last is not None and step >= last) or (until is not None and now >= until)


@dataclass(frozen=True, slots=True)
class PendingWindow:
    """A window that has not begun. It begins at a step or at a time, and has a length of the same kind."""

    request: Request
    order: str
    first_step: int | None
    start_ns: int
    """Monotonic ns; 0 for a window by steps."""
    due: bool = False
    """Whether it waits for the end of another window, however late."""

    def begins(self, step: int, now: int, stride: int) -> bool:
        """Whether it is due at the begin of a step, monotonic ns `now`; `stride` steps run in one call."""
        return step + stride > self.first_step if self.first_step is not None else now >= self.start_ns

    def until(self, step: int, now: int) -> tuple[int | None, int | None]:
        """Return the step before which it ends if it begins now, and the time; one of them is None."""
        request = self.request
        if request.duration_ns is not None:
            return None, (now if self.due else self.start_ns) + request.duration_ns
        first = step if self.due or self.first_step is None else self.first_step
        return first + (request.steps or 1), None


def resolved(request: Request, order: str, step: int, now: int) -> list[PendingWindow]:
    """Return the requested window, relative to a step and a monotonic time; none without a range."""
    if request.by_steps:
        return [PendingWindow(request, order, step if request.start_step is None else request.start_step, 0)]
    if request.by_time:
        start = now
        if request.start_ns is not None:
            start = request.start_ns - (time.time_ns() - time.perf_counter_ns())
        return [PendingWindow(request, order, None, start)]
    return []
