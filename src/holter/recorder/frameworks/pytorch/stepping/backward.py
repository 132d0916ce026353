"""Records BACKWARD and LOSS spans, and the loss: the tensor from which a backward pass begins."""

from __future__ import annotations

import atexit
import contextlib
import weakref
from collections import deque
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.stepping.adapter_state import NAN
from holter.recorder.frameworks.pytorch.stepping.loss_units import LossUnits
from holter.recorder.patches import hide
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
    from holter.recorder.frameworks.pytorch.stepping.step_hooks import ThreadState
    from holter.recorder.frameworks.pytorch.stepping.steps import StepClock
    from holter.recorder.patches import Patches

LOSS, SCALAR = int(Phase.LOSS), int(Phase.SCALAR)
DEVICE_LOSS_NS = 20_000_000
"""Shortest time between two copies of a loss from a device: each copy is a kernel launch."""
_MAX_PENDING = 16
MOST_LOSSES = 16
"""Losses of one step that are recorded, each under its own name."""


class Backward:
    """Times backward passes and reads the losses from which they begin."""

    def __init__(self, adapter: AdapterState, clock: StepClock) -> None:
        self.adapter = adapter
        self.clock = clock
        self.breaker = adapter.breaker("backward")
        self.losses = adapter.losses = adapter.breaker("loss")
        self.on_nonfinite: Callable[[Any, float], None] | None = None
        """Called with a nonfinite loss on the host, while its graph exists."""
        self.on_late: Callable[[int, float], None] | None = None
        """Called with the step and the value of a loss that has arrived from a device."""
        self._code = adapter.backward_code = adapter.code(Phase.BACKWARD, "backward")
        adapter.loss_name = adapter.session.name("loss")
        self._several = False
        """Whether each backward pass of a step has its own loss: `loss`, `loss_2`, … in order."""
        self._number = 1
        self._numbered = self._stepped = -1
        clock.on_several = self._name_passes
        self.units = LossUnits(adapter)
        self._unscaled: Any = None
        self._divisor = 1
        """Divisor of the loss that a scaler scaled last."""
        self._pending: deque[tuple[int, Any, Any, int, int]] = deque()
        self._next_copy = 0
        torch = adapter.torch
        self._tensor = torch.Tensor
        adapter.tensor = None  # until the unit of losses is known
        # A function mode or a dispatch mode of the script must not see operations of the recorder.
        adapter.observed = torch.overrides.has_torch_function_unary
        adapter.modes = getattr(torch._C, "_len_torch_dispatch_stack", int)
        adapter.item = torch.Tensor.item
        adapter.begin_pass, adapter.end_pass, adapter.read_loss = self._begin, self._end, self._loss

    def attach(self, patches: Patches) -> None:
        """Wrap `torch.autograd.backward`, which `Tensor.backward` calls, and the scalers of losses."""
        torch = self.adapter.torch
        patches.wrap(torch.autograd, "backward", self._watch_backward)
        atexit.register(self.flush)
        patches.later(lambda: atexit.unregister(self.flush))
        for owner in self.adapter.scalers("scale"):
            patches.after(owner, "scale", self.remember, self.losses)

    def _watch_backward(self, original: Any) -> Any:
        adapter, states, breaker = self.adapter, self.adapter.states, self.breaker
        begins, ends = adapter.pass_begins, adapter.pass_ends

        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            # Outside of the `try`: torch's compiler cannot break a graph inside one. It would run this frame
            # eagerly and compile the recorder's functions.
            if adapter.compiles and adapter.is_compiling():
                return original(tensors, *args, **kwargs)
            begun = False
            try:
                begun = breaker.on and begins(tensors)
                return original(tensors, *args, **kwargs)
            except BaseException as error:
                if begun:
                    states.current.fail(error)
                hide(error)
                raise
            finally:
                if begun:
                    ends()

        return backward

    def _begin(self, tensors: Any) -> bool:
        state = self.adapter.states.current
        if state.backward:
            return False
        state.before_pass = state.forward
        state.backward = state.forward = state.seen = True  # recomputation in here is no forward pass
        state.pass_began = 0
        try:
            state.pass_began = now = state.begin(self._code)
            self.adapter.backward_open = True
            if self.adapter.evaluated:  # the model trains in evaluation mode, so this is its loss
                self.adapter.evaluated.clear()
            loss = self._loss(tensors, state, now)
            begin = state.forward_end
            if begin:
                state.forward_end = 0
                state.add(LOSS, self.adapter.loss_name, begin, now - begin, loss)
            elif loss == loss:
                state.add(SCALAR, self.adapter.loss_name, now, 0, loss)
        except Exception as error:
            self.breaker.fault(error)
        return True

    def _end(self) -> None:
        adapter = self.adapter
        state = adapter.states.current
        state.backward, state.forward = False, state.before_pass
        adapter.backward_open = False
        if not state.pass_began:
            return
        try:
            for call in adapter.before_end:
                call(state.pass_began)
            state.end_of(self._code)
            deferred = adapter.deferred
            if deferred is not None:
                adapter.deferred = None
                deferred()
            elif adapter.predicting is not False:
                self.clock.on_backward_end()
        except Exception as error:
            self.breaker.fault(error)

    # -- the loss

    def remember(self, scaled: Any, scaler: Any, outputs: Any) -> None:
        """Remember a loss that a scaler has scaled."""
        if scaled is outputs or self.adapter.is_compiling():
            return
        tensor = self.adapter.torch.Tensor
        if type(scaled) is tensor and type(outputs) is tensor:
            self._unscaled, self._divisor = self._undivided(outputs)
            self.adapter.scaled = weakref.ref(scaled)

    def _undivided(self, loss: Any) -> tuple[Any, int]:
        """Return a loss and its divisor; see `LossUnits.look`."""
        if self.units.watches and loss.grad_fn is not None:
            return self.units.look(loss)
        return loss.detach(), 1

    def _loss(self, tensors: Any, state: ThreadState, now: int) -> float:
        """Return the loss of a pass if the caller must record it, else NaN."""
        try:
            if not self.losses.on or (self._several and not self._is_named()):
                return NAN
            return self._value(tensors, state, now)
        except Exception as error:
            self.losses.fault(error)
            return NAN

    def _name_passes(self, several: bool) -> None:
        """Set whether each backward pass of a step has its own loss."""
        if several != self._several:
            self._several = several
            self.adapter.loss_name = self.adapter.session.name("loss")
            self._choose_reader()

    def _choose_reader(self) -> None:
        self.adapter.tensor = None if self._several or self.units.watches else self._tensor

    def _is_named(self) -> bool:
        """Name the loss of the pass that begins; return False when the step has too many losses.

        Micro-batches share a name.
        """
        adapter = self.adapter
        if adapter.session.step != self._numbered:
            self._number = 1
        elif not self.units.divisor or adapter.inner_steps != self._stepped:
            self._number += 1
        self._numbered, self._stepped = adapter.session.step, adapter.inner_steps
        if self._number > MOST_LOSSES:
            return False
        adapter.loss_name = adapter.session.name("loss" if self._number == 1 else f"loss_{self._number}")
        return True

    def _value(self, tensors: Any, state: ThreadState, now: int) -> float:
        adapter, kind, divisor = self.adapter, type(tensors), 1
        if (kind is tuple or kind is list) and len(tensors) == 1:
            tensors = tensors[0]
        graph = tensors
        if adapter.scaled is not None:
            if adapter.scaled() is tensors:
                tensors, divisor = self._unscaled, self._divisor
            adapter.scaled = self._unscaled = None
        if type(tensors) is not self._tensor or adapter.observed(tensors) or adapter.modes():
            return NAN
        if adapter.look is not None and tensors.numel() == 1:
            adapter.look(tensors, graph)
        if self.units.watches:
            if tensors is graph and tensors.numel() == 1:
                tensors, divisor = self._undivided(tensors)
            self.units.passed(divisor)
            self._choose_reader()
        if tensors.is_cpu:
            try:
                value = tensors.item()
            except RuntimeError:  # cheaper than a test before each read
                if tensors.numel() != 1:
                    return NAN
                raise
            if type(value) is float:  # not complex
                logged = "loss" in adapter.logged_names
                if value - value == 0.0:
                    adapter.healthy_step, adapter.healthy_loss = adapter.session.step, value
                else:
                    if value != value and not logged:
                        state.add(SCALAR, adapter.loss_name, now, 0, value)
                    if self.on_nonfinite is not None:
                        self.on_nonfinite(graph, value)
                if logged:
                    return NAN
                if divisor == 1 or value - value != 0.0:
                    return value
                step, name = adapter.session.step, adapter.loss_name
                self.units.report(value, divisor, lambda loss: self._write(name, now, step, loss))
        elif tensors.is_cuda and tensors.numel() == 1 and tensors.is_floating_point():
            adapter.note_device("cuda")
            self._copy(tensors, divisor)
        return NAN

    def _write(self, name: int, when: int, step: int, loss: float) -> None:
        self.adapter.states.current.add(SCALAR, name, when, 0, loss, step)

    def _copy(self, loss: Any, divisor: int) -> None:
        """Start a copy of a loss to the host; a later step boundary reads it without waiting."""
        now = perf_counter_ns()
        if now < self._next_copy or len(self._pending) >= _MAX_PENDING:
            return
        torch = self.adapter.torch
        if torch.cuda.is_current_stream_capturing():
            return
        self._next_copy = now + DEVICE_LOSS_NS
        arrived = torch.cuda.Event()
        with torch.no_grad(), torch.cuda.device(loss.device):
            host = torch.empty((), dtype=loss.dtype, pin_memory=True)
            host.copy_(loss.detach().reshape(()), non_blocking=True)
            arrived.record()
        self._pending.append((self.adapter.session.step, host, arrived, divisor, self.adapter.loss_name))
        self.adapter.boundary_calls.add(self._read_arrived)

    def _read_arrived(self) -> None:
        pending = self._pending
        while pending and pending[0][2].query():
            step, host, _, divisor, name = pending.popleft()
            value = host.item()
            if "loss" not in self.adapter.logged_names:
                self.units.report(value, divisor, partial(self._write, name, perf_counter_ns(), step))
            if self.on_late is not None:
                self.on_late(step, value)
        if not pending:
            self.adapter.boundary_calls.discard(self._read_arrived)

    def flush(self) -> None:
        """Write the losses that have arrived; called at the end of the training."""
        with contextlib.suppress(Exception):
            self._read_arrived()
            self.units.close()
