"""BACKWARD and LOSS spans, and the value of the loss: the tensor that the backward pass starts from."""

from __future__ import annotations

import atexit
import contextlib
import weakref
from collections import deque
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.patches import hide
from holter.recorder.frameworks.pytorch.stepping import scalers
from holter.recorder.frameworks.pytorch.stepping.flow import NAN
from holter.recorder.frameworks.pytorch.stepping.loss_units import Units
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.frameworks.pytorch.patches import Patches
    from holter.recorder.frameworks.pytorch.stepping.flow import Flow
    from holter.recorder.frameworks.pytorch.stepping.steps import StepClock
    from holter.recorder.frameworks.pytorch.stepping.usual import At

LOSS, SCALAR = int(Phase.LOSS), int(Phase.SCALAR)
DEVICE_LOSS_NS = 20_000_000
"""A loss on a device is copied at most this often: each copy is one more launch."""
_MAX_PENDING = 16
MOST_LOSSES = 16
"""Losses of one step that are told by name."""


class Backward:
    """Times backward passes and reads the losses they start from."""

    def __init__(self, flow: Flow, clock: StepClock) -> None:
        self.flow = flow
        self.clock = clock
        self.collector = flow.collector("backward")
        self.losses = flow.losses = flow.collector("loss")
        self.on_nonfinite: Callable[[Any, float], None] | None = None
        """Called with a loss on the host that is not finite, while its graph is whole."""
        self.on_late: Callable[[int, float], None] | None = None
        """Called with the step and value of a loss that has arrived from a device."""
        self._code = flow.backward_code = flow.code(Phase.BACKWARD, "backward")
        flow.loss_name = flow.session.name("loss")
        self._several = False
        """Whether each pass of a step has a loss of its own: `loss`, `loss_2`, … in order."""
        self._number = 1
        self._numbered = self._stepped = -1
        clock.on_several = self._tell_apart
        self.units = Units(flow)
        self._unscaled: Any = None
        self._divisor = 1
        """What a scaled loss was divided by."""
        self._pending: deque[tuple[int, Any, Any, int, int]] = deque()
        self._next_copy = 0
        torch = flow.torch
        self._tensor = torch.Tensor
        flow.tensor = None  # until it is known that losses are told as they are
        # Somebody who watches tensor operations (a function or dispatch mode) must not see ours.
        flow.observed = torch.overrides.has_torch_function_unary
        flow.modes = getattr(torch._C, "_len_torch_dispatch_stack", int)
        flow.item = torch.Tensor.item
        flow.begin_pass, flow.end_pass, flow.read_loss = self._begin, self._end, self._loss

    def attach(self, patches: Patches) -> None:
        """Wrap `torch.autograd.backward`, which `Tensor.backward` calls, and the scalers of losses."""
        torch = self.flow.torch
        patches.wrap(torch.autograd, "backward", self._watch_backward)
        atexit.register(self.flush)
        patches.later(lambda: atexit.unregister(self.flush))
        for owner in scalers.owners(torch, "scale"):
            patches.wrap(owner, "scale", self._watch_scale)

    def _watch_backward(self, original: Any) -> Any:
        flow, here, collector = self.flow, self.flow.here, self.collector
        begins, ends = flow.pass_begins, flow.pass_ends

        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            begun = False
            try:
                begun = not (flow.compiles and flow.is_compiling()) and collector.on and begins(tensors)
                return original(tensors, *args, **kwargs)
            except BaseException as error:
                if begun:
                    here.at.fail(error)
                hide(error)
                raise
            finally:
                if begun:
                    ends()

        return backward

    def _begin(self, tensors: Any) -> bool:
        at = self.flow.here.at
        if at.backward:
            return False
        at.before_pass = at.forward
        at.backward = at.forward = at.seen = True  # what is recomputed in here is no forward pass
        at.pass_began = 0
        try:
            at.pass_began = now = at.begin(self._code)
            self.flow.backward_open = True
            if self.flow.evaluated:  # a model in evaluation mode trains: this is the loss
                self.flow.evaluated.clear()
            loss = self._loss(tensors, at, now)
            begin = at.forward_end
            if begin:
                at.forward_end = 0
                at.add(LOSS, self.flow.loss_name, begin, now - begin, loss)
            elif loss == loss:
                at.add(SCALAR, self.flow.loss_name, now, 0, loss)
        except Exception as error:
            self.collector.fault(error)
        return True

    def _end(self) -> None:
        flow = self.flow
        at = flow.here.at
        at.backward, at.forward = False, at.before_pass
        flow.backward_open = False
        if not at.pass_began:
            return
        try:
            for call in flow.before_end:
                call(at.pass_began)
            at.end_of(self._code)
            deferred = flow.deferred
            if deferred is not None:
                flow.deferred = None
                deferred()
            elif flow.predicting is not False:
                self.clock.on_backward_end()
        except Exception as error:
            self.collector.fault(error)

    # -- the loss

    def _watch_scale(self, original: Any) -> Any:
        flow, losses = self.flow, self.losses

        def scale(self: Any, outputs: Any) -> Any:
            try:
                result = original(self, outputs)
            except BaseException as error:
                hide(error)
                raise
            if result is not outputs and not flow.is_compiling():
                try:
                    remember(result, outputs)
                except Exception as error:
                    losses.fault(error)
            return result

        remember = self._remember
        return scale

    def _remember(self, scaled: Any, unscaled: Any) -> None:
        tensor = self.flow.torch.Tensor
        if type(scaled) is tensor and type(unscaled) is tensor:
            self._unscaled, self._divisor = self._undivided(unscaled)
            self.flow.scaled = weakref.ref(scaled)

    def _undivided(self, loss: Any) -> tuple[Any, int]:
        """Return a loss and its divisor, as `Units.look` does as long as it is worth it."""
        if self.units.watches and loss.grad_fn is not None:
            return self.units.look(loss)
        return loss.detach(), 1

    def _loss(self, tensors: Any, at: At, now: int) -> float:
        """Return the loss if it is to be recorded and a number, else NaN; write one that is not a number."""
        try:
            if not self.losses.on or (self._several and not self._is_named()):
                return NAN
            return self._value(tensors, at, now)
        except Exception as error:
            self.losses.fault(error)
            return NAN

    def _tell_apart(self, several: bool) -> None:
        """Give each pass of a step a name of its own from now on, or none."""
        if several != self._several:
            self._several = several
            self.flow.loss_name = self.flow.session.name("loss")
            self._choose_reader()

    def _choose_reader(self) -> None:
        self.flow.tensor = None if self._several or self.units.watches else self._tensor

    def _is_named(self) -> bool:
        """Name the loss of the pass that begins, unless a step has too many; micro-batches share a name."""
        flow = self.flow
        if flow.session.step != self._numbered:
            self._number = 1
        elif not self.units.divisor or flow.inner_steps != self._stepped:
            self._number += 1
        self._numbered, self._stepped = flow.session.step, flow.inner_steps
        if self._number > MOST_LOSSES:
            return False
        flow.loss_name = flow.session.name("loss" if self._number == 1 else f"loss_{self._number}")
        return True

    def _value(self, tensors: Any, at: At, now: int) -> float:
        flow, kind, divisor = self.flow, type(tensors), 1
        if (kind is tuple or kind is list) and len(tensors) == 1:
            tensors = tensors[0]
        graph = tensors
        if flow.scaled is not None:
            if flow.scaled() is tensors:
                tensors, divisor = self._unscaled, self._divisor
            flow.scaled = self._unscaled = None
        if type(tensors) is not self._tensor or flow.observed(tensors) or flow.modes():
            return NAN
        if flow.look is not None and tensors.numel() == 1:
            flow.look(tensors, graph)
        if self.units.watches:
            if tensors is graph and tensors.numel() == 1:
                tensors, divisor = self._undivided(tensors)
            self.units.passed(divisor)
            self._choose_reader()
        if tensors.is_cpu:
            try:
                value = tensors.item()
            except RuntimeError:  # to ask before each time would be dearer
                if tensors.numel() != 1:
                    return NAN
                raise
            if type(value) is float:  # not complex
                told = "loss" in flow.told
                if value - value == 0.0:
                    flow.healthy_step, flow.healthy_loss = flow.session.step, value
                else:
                    if value != value and not told:
                        at.add(SCALAR, flow.loss_name, now, 0, value)
                    if self.on_nonfinite is not None:
                        self.on_nonfinite(graph, value)
                if told:
                    return NAN
                if divisor == 1 or value - value != 0.0:
                    return value
                step, name = flow.session.step, flow.loss_name
                self.units.tell(value, divisor, lambda loss: self._write(name, now, step, loss))
        elif tensors.is_cuda and tensors.numel() == 1 and tensors.is_floating_point():
            flow.note_device("cuda")
            self._copy(tensors, divisor)
        return NAN

    def _write(self, name: int, when: int, step: int, loss: float) -> None:
        self.flow.here.at.add(SCALAR, name, when, 0, loss, step)

    def _copy(self, loss: Any, divisor: int) -> None:
        """Start a copy to the host, to be read once it has arrived: never wait for a device."""
        now = perf_counter_ns()
        if now < self._next_copy or len(self._pending) >= _MAX_PENDING:
            return
        torch = self.flow.torch
        if torch.cuda.is_current_stream_capturing():
            return
        self._next_copy = now + DEVICE_LOSS_NS
        arrived = torch.cuda.Event()
        with torch.no_grad(), torch.cuda.device(loss.device):
            host = torch.empty((), dtype=loss.dtype, pin_memory=True)
            host.copy_(loss.detach().reshape(()), non_blocking=True)
            arrived.record()
        self._pending.append((self.flow.session.step, host, arrived, divisor, self.flow.loss_name))
        self.flow.boundary_calls.add(self._read_arrived)

    def _read_arrived(self) -> None:
        pending = self._pending
        while pending and pending[0][2].query():
            step, host, _, divisor, name = pending.popleft()
            value = host.item()
            if "loss" not in self.flow.told:
                self.units.tell(value, divisor, partial(self._write, name, perf_counter_ns(), step))
            if self.on_late is not None:
                self.on_late(step, value)
        if not pending:
            self.flow.boundary_calls.discard(self._read_arrived)

    def flush(self) -> None:
        """Write the losses that have arrived; called at the end, when no more will be waited for."""
        with contextlib.suppress(Exception):
            self._read_arrived()
            self.units.close()
