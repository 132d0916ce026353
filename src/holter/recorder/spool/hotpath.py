"""Write one thread's spans into mapped memory: the hot path, as fast as Python allows, or compiled.

Rare cases (no file yet, a full segment, a first use of a name, an end that fits no begin) raise exceptions in
the fast path, which passes them to `_SlowPath`: the fast path itself checks nothing.
docs/decisions/0033 lists the measured alternatives, 0046 explains the compiled version.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

from holter.schema import record
from holter.schema.phases import Mode

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

INTERFACE = 4
"""Version of the compiled hot path (`span_writer.c`); a library of another version is not loaded."""
NAN = float("nan")
SIZE = record.RECORD_SIZE
TRAIN = int(Mode.TRAIN)
LOW, NAME, MODE, PHASE = record.STEP_MASK, record.NAME_SHIFT, record.MODE_SHIFT, record.PHASE_SHIFT
NOTHING = memoryview(bytearray())
"""Memory of a writer without files."""
_OPEN, _STEP = record.HEAD_OPEN, record.HEAD_STEP
_COST_MASK = record.COST_EVERY - 1

_pack = record.PACKED.pack_into
_clock = time.perf_counter_ns
_ident = threading.get_ident


class _SlowPath(Protocol):
    """The rare cases of a span writer; see `ThreadSpool`."""

    def begin_slow(self, now: int, code: int) -> None: ...
    def end_slow(self, now: int, code: int, value: Any = NAN, mode: int | None = None) -> None: ...
    def add_slow(
        self, phase: int, name_id: int, begin: int, duration: int, value: Any, step: int | None, mode: int
    ) -> None: ...
    def cost(self) -> int: ...


class _RangeFallback(Protocol):
    """A range that another thread enters, or that an exception leaves; see `Range`."""

    def enter(self) -> object: ...
    def leave(self, kind: object, error: BaseException | None, trace: object) -> None: ...


class _Tails(dict[int, int]):
    """The last word of a record, but for its step, by code: in training mode."""

    def __missing__(self, code: int) -> int:
        if not code & 255:
            raise ValueError(f"code {code} names no phase")
        tail = self[code] = code >> 8 << NAME | TRAIN << MODE | (code & 255) << PHASE
        return tail


_tails = _Tails()


class SpanWriter:
    """Writes records, and the open spans of the head page, where they stay should the process be killed."""

    __slots__ = ("low_step", "offset", "page", "ranged", "slow_path", "space", "thread", "top")

    def __init__(self, slow_path: _SlowPath) -> None:
        self.slow_path = slow_path
        self.page = NOTHING
        """The head page as words."""
        self.top = _OPEN
        """Word of the page at which the next span begins; beyond its end for spans too deep to be kept."""
        self.space = NOTHING
        """The segment."""
        self.offset = 0
        self.low_step = 0
        self.ranged = 0
        """Records written by ranges so far."""
        self.thread = 0
        """The thread it serves, as `threading.get_ident` returns it; 0 without one."""

    def begin(self, code: int) -> int:
        """Begin a span; return when, ns."""
        now = _clock()
        try:
            page, top = self.page, self.top
            page[top] = now
            page[top + 1] = code
            self.top = top + 2
        except Exception:
            self.slow_path.begin_slow(now, code)
        return now

    def end_of(self, code: int, value: float = NAN, mode: int | None = None) -> int:
        """End the innermost span with this code; return when, ns."""
        now = _clock()
        place = -1
        try:
            page, last = self.page, self.top - 1
            if page[last] == code:
                began = page[last - 1]
                tail = _tails[code] + self.low_step
                if mode is not None:
                    tail += (mode - TRAIN) << MODE
                # First the place, then the record: what interrupts us between the two writes behind us.
                place = self.offset
                self.offset = place + SIZE
                _pack(self.space, place, began, now - began, value, tail)
                page[last] = 0
                self.top = last - 1
                return now
        except Exception:
            if place >= 0:
                self.offset = place
        self.slow_path.end_slow(now, code, value, mode)
        return now

    def add(
        self,
        phase: int,
        name_id: int,
        begin: int,
        duration: int,
        value: float = NAN,
        step: int | None = None,
        mode: int = TRAIN,
    ) -> None:
        """Write a span that is already over."""
        place = self.offset
        try:
            tail = (
                (self.low_step if step is None else step & LOW)
                | name_id << NAME
                | mode << MODE
                | phase << PHASE
            )
            self.offset = place + SIZE
            _pack(self.space, place, begin, duration, value, tail)
        except Exception:
            self.offset = place
            self.slow_path.add_slow(phase, name_id, begin, duration, value, step, mode)

    def set_step(self, step: int) -> None:
        """Publish the step."""
        self.low_step = step & LOW
        if len(self.page):
            self.page[_STEP] = step
            if step & _COST_MASK == 1:
                self.slow_path.cost()

    def ranges(self, code: int, it: _RangeFallback) -> tuple[Callable[[], object], Callable[..., None]]:
        """Return `__enter__` and `__exit__` of a range with a code. On another thread they ask the range."""

        def enter() -> object:
            if _ident() != self.thread:
                return it.enter()
            self.begin(code)
            return it

        def leave(kind: object, error: BaseException | None, trace: object) -> None:
            if error is None and _ident() == self.thread:
                self.end_of(code)
                self.ranged += 1
            else:
                it.leave(kind, error, trace)

        return enter, leave


class StepCounter:
    """Counts the steps of a process, and publishes each to the span writers."""

    def __init__(self) -> None:
        self.step = 0
        self.since = 0
        """When it began, monotonic ns; 0 before the first."""
        self.manual_steps = False
        """Whether the user calls `holter.step`; then an adapter's boundaries do not count."""
        self.writers: list[SpanWriter] = []
        self.wake = memoryview(bytearray(4)).cast("i")
        """Its first word is the step from which on `woken` is called; others may write it, too."""

    def next_step(self, now: int) -> None:
        """Begin the next step at `now`, where the end of this one has been written already."""
        self.since = now
        self.step = step = self.step + 1
        for writer in self.writers:
            writer.set_step(step)
        if step >= self.wake[0]:
            self.woken(step, now)

    def woken(self, step: int, now: int) -> None:
        """Do what is rare, at the begin of a step."""
        raise NotImplementedError


def compiled() -> ModuleType | None:
    """Return the compiled hot path; None where it is missing, switched off or of another version."""
    if os.environ.get(record.ENV_COMPILE) == "0" or sys.version_info < (3, 11) or sys.platform != "linux":
        return None
    try:
        from holter.recorder.native import _hotpath
    except ImportError:
        return None
    return _hotpath if getattr(_hotpath, "INTERFACE", 0) == INTERFACE else None
