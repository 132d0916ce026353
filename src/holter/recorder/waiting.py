"""Windows of a process that have not begun: when they are due, and over which steps."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holter.schema.windows import Request


@dataclass(frozen=True, slots=True)
class Waiting:
    """A window that has not begun; from a step on, or from a time on, with a length of the same kind."""

    request: Request
    order: str
    first_step: int | None
    start_ns: int
    """Monotonic ns; 0 for a window by steps."""
    due: bool = False
    """Its turn came while another one ran: it begins when that one is over, however late."""

    def begins(self, step: int, now: int) -> bool:
        """Whether it is due at the begin of a step, monotonic ns `now`."""
        return step >= self.first_step if self.first_step is not None else now >= self.start_ns

    def until(self, step: int, now: int) -> tuple[int | None, int | None]:
        """Return, if it begins now, the step before which it ends, and the time; one of them is None."""
        request = self.request
        if request.duration_ns is not None:
            return None, (now if self.due else self.start_ns) + request.duration_ns
        first = step if self.due or self.first_step is None else self.first_step
        return first + (request.steps or 1), None


def resolved(request: Request, order: str, step: int, now: int) -> list[Waiting]:
    """Return the window that is asked for, seen from a step and a monotonic time; none without a range."""
    if request.by_steps:
        return [Waiting(request, order, step if request.start_step is None else request.start_step, 0)]
    if request.by_time:
        start = now
        if request.start_ns is not None:
            start = request.start_ns - (time.time_ns() - time.perf_counter_ns())
        return [Waiting(request, order, None, start)]
    return []
