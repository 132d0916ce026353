"""Holds the state that the parts of the PyTorch adapter share."""

from __future__ import annotations

import gc
import os
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.patches import hide
from holter.recorder.frameworks.pytorch.stepping.step_hooks import (
    COMPILED,
    NEVER,
    FastStepHooks,
    ThreadStates,
)
from holter.schema.phases import Mode, Phase

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from holter.recorder.guard import CircuitBreaker
    from holter.recorder.session import Session

NAN = float("nan")
# Plain integers: an enumeration's members cost a lookup and slower arithmetic in every mark.
TRAIN, EVAL, PREDICT = int(Mode.TRAIN), int(Mode.EVAL), int(Mode.PREDICT)
GC = int(Phase.GC)
PAUSE_NS = 1_000_000
"""A garbage collection shorter than this is not worth a record."""
_MAX_PAUSES = 1000


class AdapterState(FastStepHooks):
    """The session, the framework, and the state that the parts of the adapter share."""

    def __init__(self, session: Session, torch: ModuleType) -> None:
        self.session = session
        self.logged_names = session.logged_names
        self.torch = torch
        self.local = ThreadStates(session)
        self.states: FastStepHooks | ThreadStates = self if COMPILED else self.local
        self.is_compiling: Callable[[], bool] = getattr(
            getattr(torch, "compiler", None), "is_compiling", lambda: False
        )
        self.compiles = False
        """A compiler or an export was at work: hot paths ask `is_compiling`, which is dear, from then on."""
        self.before_step = self.after_step = None
        self.inner_steps = self.sole = self.sole_code = self.rate_left = 0
        self.sole_type = self.rate = self.on_forward = None
        self.evaluates = False
        self.backward_open = False
        self.look = self.scaled = self.deferred = self.predicting = None
        self.healthy_step, self.healthy_loss = -1, 0.0
        self.evaluated = []
        self.before_end = []
        self.model_codes = {}
        self.on_eval_loss: Callable[[Any], None] | None = None
        """Called with each of them."""
        self._device = ""
        self._pause_begin = 0
        self._gc_code = self.code(Phase.GC, "gc")
        self.wake_at = NEVER
        self.wake: Callable[[], None] = lambda: None
        self.boundary_calls = set()
        self.pauses = []

    def code(self, phase: Phase, name: str) -> int:
        """Return what `ThreadSpool.begin` takes for spans of `phase` called `name`."""
        return self.session.name(name) << 8 | int(phase)

    def timed(
        self,
        original: Callable[..., Any],
        code: int,
        breaker: CircuitBreaker,
        flag: str,
        value: Callable[[tuple[Any, ...], dict[str, Any]], float] | None = None,
        unless: Callable[[tuple[Any, ...], dict[str, Any]], Any] | None = None,
        choose: Callable[[tuple[Any, ...], dict[str, Any]], int] | None = None,
    ) -> Callable[..., Any]:
        """Return `original` within a span. For what is rare; hot paths are written out where they are.

        Args:
            original: The framework's function.
            code: The argument of `ThreadSpool.begin`.
            breaker: Counts faults of ours.
            flag: Attribute of `ThreadState` that is set meanwhile: of nested calls the outermost is timed.
            value: Gives the span's value, from the arguments, once the call has returned.
            unless: Whether a call with these arguments is not timed.
            choose: Gives another code for a call, from the arguments.
        """
        states, is_compiling = self.states, self.is_compiling

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return original(*args, **kwargs)
            state = states.current
            if not breaker.on or getattr(state, flag) or (unless is not None and unless(args, kwargs)):
                try:
                    return original(*args, **kwargs)
                except BaseException as error:
                    hide(error)
                    raise
            setattr(state, flag, True)
            begun = done = False
            mine = code
            try:
                mine = code if choose is None else choose(args, kwargs)
                state.begin(mine)
                begun = True
            except Exception as error:
                breaker.fault(error)
            try:
                result = original(*args, **kwargs)
                done = True
                return result
            except BaseException as error:
                state.fail(error)
                hide(error)
                raise
            finally:
                setattr(state, flag, False)
                try:
                    if begun:
                        state.end_of(mine, value(args, kwargs) if done and value is not None else NAN)
                except Exception as error:
                    breaker.fault(error)

        return wrapper

    def breaker(self, what: str) -> CircuitBreaker:
        """Return the switch and fault counter of one thing that is recorded."""
        return self.session.breaker(f"pytorch.{what}")

    def note_device(self, kind: str) -> None:
        """Note the kind of device that trains, as far as it shows: asking torch for one would start it."""
        if kind != self._device:
            self._device = kind
            version = str(self.torch.__version__)
            self.session.journal("framework", {"name": "pytorch", "version": version, "device": kind})

    def plain_boundary(self) -> bool:
        """Whether nothing but the next step comes with the boundary of this one."""
        session = self.session
        return not (
            self.backward_open
            or self.boundary_calls
            or self.pauses
            or session.manual_steps
            or not session.since
            or session.step >= self.wake_at
        )

    def boundary(self, mode: int = TRAIN, now: int | None = None) -> None:
        """End the step; inside a backward pass, at that pass's end."""
        if self.backward_open:
            self.deferred = lambda: self.boundary(mode)
            return
        if now is None:
            now = perf_counter_ns()
        if self.boundary_calls:
            for call in tuple(self.boundary_calls):
                call()
        if self.pauses:
            self.write_pauses()
        session = self.session
        if session.step >= self.wake_at:
            self.wake()
        session.boundary(now, mode)

    def watch_pauses(self) -> Callable[[], None]:
        """Record pauses of the garbage collector from now on; return what ends that."""
        gc.callbacks.append(self._on_gc)
        # A forked worker would write its parent's pauses once more.
        os.register_at_fork(after_in_child=lambda: self.pauses.clear())

        def stop() -> None:
            if self._on_gc in gc.callbacks:
                gc.callbacks.remove(self._on_gc)

        return stop

    def _on_gc(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._pause_begin = perf_counter_ns()
            return
        duration = perf_counter_ns() - self._pause_begin
        # A collection can start in the middle of writing a record, so this one is written later.
        if duration >= PAUSE_NS and self._pause_begin and len(self.pauses) < _MAX_PAUSES:
            self.pauses.append((self._pause_begin, duration, info.get("generation", -1)))

    def write_pauses(self) -> None:
        """Write the pauses seen since the last call."""
        pauses, self.pauses = self.pauses, []
        add = self.states.current.add
        for begin, duration, generation in pauses:
            add(GC, self._gc_code >> 8, begin, duration, float(generation))
