"""Holds the state that the parts of the PyTorch adapter share."""

from __future__ import annotations

import gc
import os
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.stepping.phase_listeners import PhaseListeners
from holter.recorder.frameworks.pytorch.stepping.step_hooks import (
    COMPILED,
    NEVER,
    FastStepHooks,
    ThreadStates,
)
from holter.recorder.patches import hide
from holter.schema.phases import Mode, Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import ModuleType

    from holter.recorder.guard import CircuitBreaker
    from holter.recorder.session import Session

NAN = float("nan")
# Plain integers: members of an enumeration cost a lookup and slower arithmetic in each record.
TRAIN, EVAL, PREDICT = int(Mode.TRAIN), int(Mode.EVAL), int(Mode.PREDICT)
GC = int(Phase.GC)
PAUSE_NS = 1_000_000
"""Shorter garbage collections are not recorded."""
_MAX_PAUSES = 1000
LR_EVERY = 100
"""Steps after which an unchanged learning rate is recorded again."""


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
        """Whether a compiler or an export has run. Only then hot paths call the expensive `is_compiling`."""
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
        """Called with each loss that a function computes during an evaluation."""
        self.on_batch: Callable[[Any, Any], None] | None = None
        """Called with an iterator of a loader and a batch of it; raises nothing."""
        self.without_devices: Callable[[], None] = lambda: None
        """Stops the watch of tensors that move to a device. Called where the machine has no accelerator."""
        self.device = ""
        """The kind of device that trains, such as cuda, as seen in use."""
        self._rate: float | None = None
        self._pause_begin = 0
        self._gc_code = self.code(Phase.GC, "gc")
        self.wake_at = NEVER
        self.wake: Callable[[], None] = lambda: None
        self.boundary_calls = set()
        self._listeners = PhaseListeners(self.breaker("phases"))
        self.pauses = []

    def code(self, phase: Phase, name: str) -> int:
        """Return the code of spans of `phase` called `name`, the argument of `ThreadSpool.begin`."""
        return self.session.name(name) << 8 | int(phase)

    def scalers(self, method: str) -> Iterator[Any]:
        """Yield the classes of gradient scalers that define `method`.

        Before torch 2.3 the CUDA scaler defined it; since then it inherits it.
        """
        for path in ("amp.GradScaler", "cuda.amp.GradScaler"):
            owner: Any = self.torch
            for part in path.split("."):
                owner = getattr(owner, part, None)
            if owner is not None and method in vars(owner):
                yield owner

    def timed(
        self,
        original: Callable[..., Any],
        code: int,
        breaker: CircuitBreaker,
        flag: str,
        value: Callable[[tuple[Any, ...], Mapping[str, object]], float] | None = None,
        unless: Callable[[tuple[Any, ...], Mapping[str, object]], Any] | None = None,
        choose: Callable[[tuple[Any, ...], Mapping[str, object]], int] | None = None,
    ) -> Callable[..., Any]:
        """Wrap `original` in a span. For rare calls; hot paths have their own wrappers.

        Args:
            original: The framework's function.
            code: The argument of `ThreadSpool.begin`.
            breaker: Counts faults of the recorder.
            flag: Attribute of `ThreadState` that is true during the call, so that nested calls are not timed.
            value: Computes the span's value from the arguments, after the call has returned.
            unless: Returns whether a call with these arguments is not timed.
            choose: Returns another code for a call with these arguments.
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
        """Return the circuit breaker of one part of the adapter."""
        return self.session.breaker(f"pytorch.{what}")

    def note_device(self, kind: str) -> None:
        """Journal the kind of device that trains, as seen in use: asking torch would initialize it."""
        if kind != self.device:
            self.device = kind
            version = str(self.torch.__version__)
            self.session.journal("framework", {"name": "pytorch", "version": version, "device": kind})

    def note_rate(self, optimizer: Any) -> None:
        """Record the learning rate of the first group if it changed, and once in `LR_EVERY` steps."""
        groups = optimizer.param_groups
        rate = groups[0].get("lr") if groups else None
        self.rate_left -= 1
        if rate is self.rate and rate is not None and self.rate_left >= 0:
            return
        if rate is None or not (isinstance(rate, (int, float)) or getattr(rate, "is_cpu", False)):
            return  # a rate on a device: reading it would wait for the device
        self.rate = rate if type(rate) is float else None  # a tensor may change in place
        value = float(rate)
        if value != self._rate or self.rate_left < 0:
            self._rate, self.rate_left = value, LR_EVERY - 1
            if "lr" not in self.logged_names:
                self.session.scalar("lr", value)

    def plain_boundary(self) -> bool:
        """Whether the end of this step only begins the next one."""
        session = self.session
        return not (
            self.backward_open
            or self.boundary_calls
            or self.pauses
            or session.manual_steps
            or not session.since
            or session.step >= self.wake_at
        )

    def boundary(self, mode: int = TRAIN, now: int | None = None, steps: int = 1) -> None:
        """End the step, or so many at once; inside a backward pass, do so at the end of that pass."""
        if self.backward_open:
            self.deferred = lambda: self.boundary(mode, steps=steps)
            return
        if self.session.release is not None:
            self.session.end_open_round()
        if self.session.manual_steps:  # its owner ends it, and calls `before_end`
            self.session.worked = True
            return
        if now is None:
            now = perf_counter_ns()
        self.before_end_of_step()
        self.session.boundary(now, mode, steps=steps)

    def before_end_of_step(self) -> None:
        """Do what is due before a step ends in which torch has worked, whoever ends it."""
        if self.boundary_calls:
            for call in tuple(self.boundary_calls):
                call()
        if self.pauses:
            self.write_pauses()
        if self.session.step >= self.wake_at:
            self.wake()

    def watch_phases(self, call: Callable[[str, bool, int | None], None]) -> Callable[[], None]:
        """Call `call(part, begins, mode)` at each begin and end of a part of a step on the calling thread.

        `mode` is known only at the end of a forward pass. An exception in `call` is a fault of the recorder.

        Returns:
            A function that ends this; the last one restores everything.
        """
        return self._listeners.add(self.states.current, call)

    def watch_pauses(self) -> Callable[[], None]:
        """Record pauses of the garbage collector from now on; return a function that stops it."""
        gc.callbacks.append(self._on_gc)
        # Otherwise a forked worker writes its parent's pauses again.
        os.register_at_fork(after_in_child=lambda: self.pauses.clear())

        def stop() -> None:
            if self._on_gc in gc.callbacks:
                gc.callbacks.remove(self._on_gc)

        return stop

    def _on_gc(self, phase: str, info: Mapping[str, int]) -> None:
        if phase == "start":
            self._pause_begin = perf_counter_ns()
            return
        duration = perf_counter_ns() - self._pause_begin
        # A collection can start while a record is being written, so its own record is written later.
        if duration >= PAUSE_NS and self._pause_begin and len(self.pauses) < _MAX_PAUSES:
            self.pauses.append((self._pause_begin, duration, info.get("generation", -1)))

    def write_pauses(self) -> None:
        """Write the pauses seen since the last call."""
        pauses, self.pauses = self.pauses, []
        add = self.states.current.add
        for begin, duration, generation in pauses:
            add(GC, self._gc_code >> 8, begin, duration, float(generation))
