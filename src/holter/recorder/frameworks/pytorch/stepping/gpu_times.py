"""Measures how long the parts of a few steps take on the GPU, with CUDA events that are read later.

Once a second the sampler's thread asks for a step. At its boundaries, and where its parts begin and end, the
training thread records an event on the current stream. Later boundaries ask whether the events are complete,
so nothing waits for the GPU. A training on the CPU never comes here.
"""

from __future__ import annotations

import os
from threading import get_ident
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple

from holter.schema.phases import Mode
from holter.schema.record import ENV_GPU_TIME

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState

PAUSE_NS = 1_000_000_000
"""Least time between two measured steps."""
COST_SHARE = 1000
"""Measuring takes at most one part in this many of the training thread's time."""
MOST_EVENTS = 256
"""Events of one step; a step with more parts is left out."""
MOST_WAITS = 2000
"""Boundaries after which an event that is not complete is given up."""
_EVERY = 16
"""Measured steps that one line of the journal sums up, after the first few."""
_EVAL = int(Mode.EVAL)
STEP = "step"


class _Piece(NamedTuple):
    part: str
    begin: Any
    end: Any
    host_ns: int


class GpuTimer:
    """The measured step, and the sums that are not written yet."""

    def __init__(self, adapter: AdapterState, cuda: Any) -> None:
        """Measure with the events and streams of `cuda`, which is `torch.cuda`."""
        self._adapter, self._cuda = adapter, cuda
        self.breaker = adapter.breaker("gpu_time")
        self._on = os.environ.get(ENV_GPU_TIME) != "0"
        self._due = 0
        self._busy = False
        """Whether a step is asked for, measured or waited for."""
        self._pool: list[Any] = []
        self._used: list[Any] = []
        self._open: list[tuple[str, Any, int]] = []
        self._pieces: list[_Piece] = []
        self._begin: Any = None
        self._last: Any = None
        self._began = self._took = self._waited = self._cost = self._thread = 0
        self._device = -1
        self._spoiled = False
        self._undo: Callable[[], None] | None = None
        self._sums: dict[str, list[int]] = {}
        self._steps = self._written = self._left_out = 0

    def woke(self) -> None:
        """Ask for a step if one is due; called by the sampler's thread."""
        if self._busy or not (self._on and self.breaker.on) or self._adapter.device != "cuda":
            return
        if perf_counter_ns() >= self._due:
            self._busy = True
            self._adapter.boundary_calls.add(self.at_boundary)

    def at_boundary(self) -> None:
        """Begin or end the measured step, or read it; called by the training thread between two steps."""
        entered = perf_counter_ns()
        if self._began and self._thread != get_ident():  # another thread trains, too
            return
        try:
            if not self._cuda.is_initialized():  # also in a forked child, which cannot use CUDA
                self._pool.clear()
                self._used.clear()
                self._forget()
            elif self._last is not None:
                self._read()
            elif self._begin is not None:
                self._finish(entered)
            else:
                self._start()
        except Exception as error:
            self._forget()
            self.breaker.fault(error)
        self._cost += perf_counter_ns() - entered
        if not self._busy:
            self._adapter.boundary_calls.discard(self.at_boundary)
            self._due = perf_counter_ns() + max(PAUSE_NS, COST_SHARE * self._cost)
            self._adapter.states.current.thread_spool.spent(self._cost)
            self._cost = 0

    def stop(self) -> None:
        """Take the hooks out and write the sums."""
        self._on = False
        self._adapter.boundary_calls.discard(self.at_boundary)
        self._forget()
        self._write()

    # -- the measured step

    def _start(self) -> None:
        """Begin with this boundary, unless a graph is captured or a profiler listens."""
        if self._captures() or self._adapter.states.current.heard:
            self._busy = False
            return
        if self._device != (device := self._cuda.current_device()):
            self._device = device
            self._pool.clear()  # an event belongs to the device on which it was recorded first
        self._spoiled, self._waited, self._thread = False, 0, get_ident()
        self._undo = self._adapter.watch_phases(self._part)
        self._begin = self._event()
        self._began = perf_counter_ns()

    def _part(self, part: str, begins: bool, mode: int | None) -> None:
        """Record an event where a part begins or ends."""
        entered = perf_counter_ns()
        if self._spoiled:
            return
        try:
            if self._captures() or len(self._used) >= MOST_EVENTS:
                self._spoiled = True
                return
            event = self._event()
        except Exception as error:
            self._spoiled = True
            self.breaker.fault(error)
            return
        if begins:
            self._open.append((part, event, entered))
        elif self._open and self._open[-1][0] == part:
            _, begin, began = self._open.pop()
            if mode != _EVAL:
                self._pieces.append(_Piece(part, begin, event, entered - began))
        self._cost += perf_counter_ns() - entered

    def _finish(self, now: int) -> None:
        """End the step with this boundary."""
        if self._undo is not None:
            self._undo()
            self._undo = None
        if self._spoiled or self._captures():
            self._left_out += 1
            self._forget()
            return
        self._last, self._took = self._event(), now - self._began

    def _read(self) -> None:
        """Add the times if the GPU has come to the end of the step; else wait for another boundary."""
        if self._captures():
            return
        if not all(event.query() for event in reversed(self._used)):
            self._waited += 1
            if self._waited >= MOST_WAITS:
                self._left_out += 1
                self._used.clear()  # an event that may still be waited for is not used again
                self._forget()
            return
        for part, begin, end, host_ns in (
            *self._pieces,
            _Piece(STEP, self._begin, self._last, self._took),
        ):
            sums = self._sums.setdefault(part, [0, 0])
            sums[0] += round(1e6 * begin.elapsed_time(end))
            sums[1] += host_ns
        self._steps += 1
        self._forget()
        if self._steps - self._written >= (1 if self._steps <= 4 else _EVERY):
            self._write()

    def _captures(self) -> bool:
        return bool(self._cuda.is_current_stream_capturing())

    def _event(self) -> Any:
        event = self._pool.pop() if self._pool else self._cuda.Event(enable_timing=True)
        event.record()
        self._used.append(event)
        return event

    def _forget(self) -> None:
        """Give the events back, and be ready for another step."""
        if self._undo is not None:
            self._undo()
            self._undo = None
        self._pool += self._used
        self._used, self._open, self._pieces = [], [], []
        self._begin = self._last = None
        self._began = 0
        self._busy = False

    def _write(self) -> None:
        """Write the sums since the last line, ns: `gpu` and `host` of each part, and of the whole steps."""
        if self._steps == self._written:
            return
        parts = {part: {"gpu": gpu, "host": host} for part, (gpu, host) in self._sums.items()}
        fact = {"time": perf_counter_ns(), "steps": self._steps - self._written, "parts": parts}
        self._adapter.session.journal("gpu_time", {**fact, "left_out": self._left_out})
        self._written, self._left_out = self._steps, 0
        self._sums.clear()
