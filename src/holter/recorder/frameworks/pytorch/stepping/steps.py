"""Records OPTIMIZER spans and decides where a step ends: the step clock.

A step ends with the *last* optimizer of an iteration, the leader. At first, the first optimizer that steps
leads. When other optimizers step before it steps again, the last of them becomes the leader. The clock waits
for optimizers that exist but have not stepped, so that the first iteration of a GAN is one step. It refers to
optimizers weakly.

Optimizers may step at different rates: a critic with every batch and the generator with every fifth. Then no
optimizer ends every iteration. So a step in which any optimizer has stepped also ends when its loader is
asked for the next batch. A batch alone does not end a step: gradients may accumulate over several batches,
and an iteration may use several loaders.
"""

from __future__ import annotations

import sys
import threading
import weakref
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.stepping.adapter_state import PREDICT, TRAIN
from holter.recorder.patches import hide
from holter.recorder.sampling.other_threads import exists
from holter.recorder.steps import TRAINERS
from holter.schema.phases import Phase
from holter.schema.record import step_lead

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
    from holter.recorder.frameworks.pytorch.stepping.step_hooks import ThreadState
    from holter.recorder.patches import Patches

PATIENCE = 6
"""Steps of the first optimizer after which the clock no longer waits for others that have not stepped."""
ABSENT = 4
"""Iterations without a step of the leader, after which another optimizer leads."""
SETTLED = 10
"""Steps that a leader must end to remain the leader when another optimizer steps occasionally."""
SILENT_NS = 10_000_000_000
"""Time without a step, after which another training thread ends the steps."""
_SKIPPED = int(Phase.SKIPPED)
UNDECIDED = 4
"""Passes of one model in training mode, without optimizer or backward pass, that count as inference: a
script that builds a model may call each of its parts once, to learn their shapes."""


class StepClock:
    """Counts iterations by steps of optimizers, or by forward passes when there is no optimizer."""

    def __init__(self, adapter: AdapterState) -> None:
        self.adapter = adapter
        self.breaker = adapter.breaker("optimizer")
        self.on_new_optimizer: Callable[[], None] = lambda: None
        self.on_several: Callable[[bool], None] = lambda several: None
        """Called with whether several optimizers exist: then passes of a step may have different losses."""
        self.on_skipped: Callable[[Any], None] | None = None
        """Called with an optimizer whose step a scaler skipped."""
        self.on_scaler: Callable[[Any], None] | None = None
        """Called with a scaler that is about to step an optimizer."""
        self.awaited: dict[int, weakref.ref[Any]] = {}  # optimizers that have not stepped
        self.known: dict[int, weakref.ref[Any]] = {}  # optimizers that have
        self._leader: weakref.ref[Any] | None = None
        self._loop = self._began = 0  # the thread whose optimizers end steps, and when it began
        self._settled = False
        self._last_other: weakref.ref[Any] | None = None
        self._held = 0  # iterations without an end because the clock waits for optimizers
        self._led, self._cycle = 0, 1
        self._since = 0  # steps of optimizers since the last end of an iteration
        self._alone, self._latest = False, 0  # whether one optimizer, with this `id`, has made all of them
        self._unended = 0  # the thread of the last optimizer step that did not end a step
        self.codes: dict[type, int] = {}
        """Codes of OPTIMIZER spans, by class."""
        self._fetched: tuple[int, Any] | None = None
        """A step that began with a batch, and the loader of that batch."""
        self._infers, self._passes = False, dict[int, int]()  # passes of each model, by `id`, until then
        self._trains_without_optimizer = False
        self._thread = 0  # the first thread that called a model: its calls are steps

    def attach(self, patches: Patches) -> None:
        """Hook optimizers and gradient scalers."""
        torch = self.adapter.torch
        # Not `torch.optim.optimizer`: torch deletes that name from its own package.
        optimizer = sys.modules[torch.optim.Optimizer.__module__]
        before, after = self._hooks()
        for handle in (
            optimizer.register_optimizer_step_pre_hook(before),
            optimizer.register_optimizer_step_post_hook(after),
        ):
            patches.later(handle.remove)
        patches.after(torch.optim.Optimizer, "__init__", self.expect, self.breaker)
        for owner in self.adapter.scalers("step"):
            patches.wrap(owner, "step", self._watch_scaler)

    @property
    def thread(self) -> int:
        """The thread whose calls end steps, as `threading.get_ident` returns it."""
        return self._loop or self._thread or threading.main_thread().ident or 0

    # -- optimizers

    def expect(self, result: None, optimizer: Any, *_: Any, **__: Any) -> None:
        """Wait for the first step of a new optimizer."""
        if self.adapter.is_compiling():
            return
        self.adapter.predicting = False
        self.adapter.sole = 0
        key = id(optimizer)
        awaited = self.awaited
        awaited[key] = weakref.ref(optimizer, lambda _: awaited.pop(key, None))
        self.known.pop(key, None)
        self._count()

    def _hooks(self) -> tuple[Callable[..., None], Callable[..., None]]:
        """Return the functions that torch calls before and after each step of an optimizer."""
        states, breaker = self.adapter.states, self.breaker
        adapter, clock = self.adapter, self
        begins, ended = adapter.optimizer_begins, adapter.optimizer_ended

        def before(optimizer: Any, args: Any, kwargs: Any) -> None:
            if (adapter.compiles and adapter.is_compiling()) or not breaker.on:
                return
            try:
                if begins(optimizer):
                    return
                state = states.current
                if adapter.before_step is not None:
                    adapter.before_step(optimizer)
                if state.scaling:
                    return
                if state.optimizers and state.optimizer == id(optimizer):
                    clock.end_stale()
                clock.enter(optimizer, state)
            except Exception as error:
                breaker.fault(error)

        def after(optimizer: Any, args: Any, kwargs: Any) -> None:
            if adapter.compiles and adapter.is_compiling():
                return
            try:
                if ended(optimizer):
                    return
                adapter.inner_steps += 1
                state = states.current
                if adapter.after_step is not None:
                    adapter.after_step(optimizer)
                if state.scaling or not state.optimizers:
                    return
                if state.optimizers == 1 and clock._leads(optimizer) and adapter.plain_boundary():
                    # The usual case: the record of the optimizer also ends the step, see `step_lead`.
                    state.optimizers = 0
                    adapter.note_rate(optimizer)
                    session = adapter.session
                    session.next_step(
                        state.end_of(clock.codes[type(optimizer)], step_lead(session.since, state.began))
                    )
                else:
                    clock.leave(optimizer, state, stepped=True)
            except Exception as error:
                breaker.fault(error)

        return before, after

    def _watch_scaler(self, original: Any) -> Callable[..., Any]:
        """Wrap a scaler's `step` in the span of the optimizer that it steps or skips."""

        def optimizer_of(scaler: Any, optimizer: Any, *_: Any, **__: Any) -> Any:
            if self.on_scaler is not None:
                self.on_scaler(scaler)
            return optimizer

        return self.stepping(original, optimizer_of)

    def stepping(
        self,
        original: Any,
        optimizer_of: Callable[..., Any],
        stepped: Callable[..., bool] | None = None,
    ) -> Callable[..., Any]:
        """Wrap a function that steps or skips an optimizer; steps inside of it are a part of its span.

        Args:
            original: The function.
            optimizer_of: Returns the optimizer from its arguments, before the call.
            stepped: Returns after the call whether the optimizer has stepped; if absent, torch's hooks tell.
        """
        clock, adapter, states = self, self.adapter, self.adapter.states

        def step(*args: Any, **kwargs: Any) -> Any:
            if adapter.is_compiling() or (state := states.current).scaling or not clock.breaker.on:
                try:
                    return original(*args, **kwargs)
                except BaseException as error:
                    hide(error)
                    raise
            state.scaling = True
            inner = adapter.inner_steps
            optimizer, done = None, False
            try:
                found = optimizer_of(*args, **kwargs)
                clock.enter(found, state)
                optimizer = found
            except Exception as error:
                clock.breaker.fault(error)
            try:
                result = original(*args, **kwargs)
                done = True
                return result
            except BaseException as error:
                hide(error)
                raise
            finally:
                state.scaling = False
                try:
                    if optimizer is not None:
                        seen = adapter.inner_steps != inner
                        if done and not (seen if stepped is None else stepped(*args, **kwargs)):
                            name = clock.codes[type(optimizer)] >> 8
                            state.add(_SKIPPED, name, perf_counter_ns(), 0)
                            if clock.on_skipped is not None:
                                clock.on_skipped(optimizer)
                        clock.leave(optimizer, state, stepped=done)
                except Exception as error:
                    clock.breaker.fault(error)

        return step

    def enter(self, optimizer: Any, state: ThreadState) -> None:
        """Begin the span of an optimizer."""
        state.optimizers += 1
        if state.optimizers > 1:
            self.awaited.pop(id(optimizer), None)  # an optimizer inside another
            return
        state.seen = True
        state.forward_end = 0
        state.optimizer = key = id(optimizer)
        if key not in self.known:
            self._add(key, optimizer)
        cls = type(optimizer)
        if cls not in self.codes:
            self.codes[cls] = self.adapter.code(Phase.OPTIMIZER, cls.__qualname__)
        state.began = state.begin(self.codes[cls])

    def _add(self, key: int, optimizer: Any) -> None:
        if len(self.known) > 100_000:  # ids of deleted optimizers
            self.known.clear()
        self.known[key] = weakref.ref(optimizer)
        self.adapter.predicting = False
        self._count()
        self.on_new_optimizer()

    def _count(self) -> None:
        known = {key for key, each in self.known.items() if each() is not None}
        self.on_several(len(known | self.awaited.keys()) > 1)

    def leave(self, optimizer: Any, state: ThreadState, *, stepped: bool) -> None:
        """End the span of an optimizer; `stepped` is false when its step raised."""
        state.optimizers -= 1
        if state.optimizers:
            return
        now = state.end_of(self.codes[type(optimizer)])
        if stepped:
            self.stepped(optimizer, now)

    def end_stale(self) -> None:
        """Forget an optimizer step that raised, for which torch called no post hook."""
        state = self.adapter.states.current
        state.optimizers = 0
        thread_spool = state.thread_spool
        for depth, (_, code) in enumerate(thread_spool.open_spans()):
            if code & 255 == Phase.OPTIMIZER:
                thread_spool.unwind(depth)
                return

    # -- where a step ends

    def stepped(self, optimizer: Any, now: int) -> None:
        """Decide whether the iteration ends with an outermost optimizer step that ended at `now`, ns."""
        if self._leads(optimizer):
            self.adapter.note_rate(optimizer)
            self.adapter.boundary(TRAIN, now)
            return
        elsewhere = threading.get_ident() != self._loop
        if elsewhere and self._beside(optimizer, now):
            return
        self._since += 1
        self._alone = self._since == 1 or (self._alone and self._latest == id(optimizer))
        self._latest = id(optimizer)
        self._unended = threading.get_ident()
        self.adapter.sole = 0
        if self.awaited:
            self.awaited.pop(id(optimizer), None)
        leader = self._leader() if self._leader is not None else None
        if leader is None:
            self._lead(optimizer)
        elif leader is optimizer:
            other = self._last_other() if self._last_other is not None else None
            if other is not None and not self._settled:
                # The iteration that began with the leader ended with the other optimizer, which now leads.
                self._lead(other, settled=True)
                self._since = 1
                return
        elif self._held and not self.awaited and not elsewhere:
            self._lead(optimizer, settled=True)  # the last expected optimizer ends the first iteration
        else:
            self._last_other = None if elsewhere else weakref.ref(optimizer)
            cycle = max(self._cycle, len(self.known)) if self._held else self._cycle
            if self._since <= ABSENT * cycle:
                return
            self._lead(optimizer)
        if self.awaited and not (self._led or self._settled) and self._held < PATIENCE:
            self._held += 1
            return
        self._end_step(optimizer, now)

    def _beside(self, optimizer: Any, now: int) -> bool:
        """Whether this thread trains in addition to the thread that ends the steps."""
        leader, since = self._leader and self._leader(), max(self.adapter.session.since, self._began)
        if leader in (None, optimizer) or not exists(self._loop):
            return False
        self.awaited.pop(id(optimizer), None)
        return now - since < SILENT_NS

    def _leads(self, optimizer: Any) -> bool:
        """Whether this is the only optimizer, which ends every step: the usual case."""
        if self._settled and not self._since and not self.awaited and self._leader() is optimizer:  # type: ignore[misc]
            self._cycle = 1
            adapter, kind = self.adapter, type(optimizer)
            if not adapter.sole:
                self.on_several(False)
            adapter.sole, adapter.sole_type, adapter.sole_code = id(optimizer), kind, self.codes[kind]
            return True
        return False

    def _lead(self, optimizer: Any, *, settled: bool = False) -> None:
        self.adapter.sole = 0
        self._leader = weakref.ref(optimizer)
        self._loop, self._began = threading.get_ident(), perf_counter_ns()
        self._last_other = None
        self._settled, self._led = settled, 0

    def _end_step(self, optimizer: Any, now: int) -> None:
        iterations = self._since if self._alone else 1  # while the clock waited for others
        self._cycle, self._since, self._last_other, self._held = self._since, 0, None, 0
        self._unended = 0
        self._led += 1
        if self._led == SETTLED:
            self._settled = True
        self.adapter.note_rate(optimizer)
        self.adapter.boundary(TRAIN, now, iterations)

    def next_batch(self, iterator: Any) -> None:
        """End an iteration that no optimizer has ended, when its loader is asked for the next batch."""
        session, loader = self.adapter.session, getattr(iterator, "_holter_loader", None)
        if self._unended == threading.get_ident() and self._fetched == (session.step, loader):
            self._held = self._unended = 0
            self._led += 1
            self.adapter.boundary(TRAIN)
        if self._fetched is None or self._fetched[0] != session.step:
            self._fetched = session.step, loader

    def exhausted(self, iterator: Any) -> None:
        """Forget a loader that ends, such as that of a validation: the step that runs has another one."""
        if self._fetched == (self.adapter.session.step, getattr(iterator, "_holter_loader", None)):
            self._fetched = None

    # -- no optimizer

    def on_forward_begin(self) -> None:
        """End the step of the last forward pass, once such passes count as inference."""
        if self._infers:
            self._infers, self._passes = False, {}
            self.adapter.predicting = True
            self.adapter.boundary(PREDICT)

    def on_forward_end(self, model: Any, now: int) -> None:
        """End a step after a forward pass without optimizer, unless a backward pass may follow."""
        thread = threading.get_ident()
        self._thread = self._thread or thread
        if self._trains_without_optimizer or thread != self._thread:  # a replica
            return
        if self.adapter.session.step_owner in TRAINERS:  # which knows what the model is used for
            return
        if self.adapter.predicting is None:
            # Not after the first: a script that trains may call its model before, to count its operations.
            trains = model.training and self.adapter.torch.is_grad_enabled()
            passes = self._passes[id(model)] = self._passes.get(id(model), 0) + (1 if trains else UNDECIDED)
            self._infers = self._infers or passes >= UNDECIDED
            return
        self.adapter.predicting = True
        self.adapter.boundary(PREDICT, now)

    def on_backward_end(self) -> None:
        """End a step after a backward pass without optimizer: the script updates its parameters itself."""
        if self.adapter.predicting is not False and not self.known:
            self.adapter.predicting, self._trains_without_optimizer = None, True
            self._infers, self._passes = False, {}
            self.adapter.boundary()
