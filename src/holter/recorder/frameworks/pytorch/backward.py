"""BACKWARD and LOSS spans, and the value of the loss: the tensor that the backward pass starts from."""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch import scalers
from holter.recorder.frameworks.pytorch.flow import NAN
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.frameworks.pytorch.flow import At, Flow
    from holter.recorder.frameworks.pytorch.patches import Patches
    from holter.recorder.frameworks.pytorch.steps import StepClock

LOSS, SCALAR = int(Phase.LOSS), int(Phase.SCALAR)
DEVICE_LOSS_NS = 20_000_000
"""A loss on a device is copied at most this often: each copy is one more launch."""
_MAX_PENDING = 16


class Backward:
    """Times backward passes and reads the losses they start from."""

    def __init__(self, flow: Flow, clock: StepClock) -> None:
        self.flow = flow
        self.clock = clock
        self.collector = flow.collector("backward")
        self.losses = flow.collector("loss")
        self.before_end: list[Callable[[int], None]] = []
        """Called with the begin of the pass, just before its span ends."""
        self.on_nonfinite: Callable[[Any, float], None] | None = None
        """Called with a loss on the host that is not finite, while its graph is whole."""
        self.on_late: Callable[[int, float], None] | None = None
        """Called with the step and value of a loss that has arrived from a device."""
        self.look: Callable[[Any, Any], None] | None = None
        """Called with every loss, unscaled and as the pass begins from it, as long as somebody wants to."""
        self.healthy = (-1, 0.0)
        """Step and value of the last finite loss on the host."""
        self._code = flow.code(Phase.BACKWARD, "backward")
        self._loss_name = flow.session.name("loss")
        self._scaled: weakref.ref[Any] | None = None
        self._unscaled: Any = None
        self._pending: deque[tuple[int, Any, Any]] = deque()
        self._next_copy = 0
        torch = flow.torch
        self._tensor = torch.Tensor
        # Somebody who watches tensor operations (a function or dispatch mode) must not see ours.
        self._observed = torch.overrides.has_torch_function_unary
        self._modes = getattr(torch._C, "_len_torch_dispatch_stack", int)

    def attach(self, patches: Patches) -> None:
        """Wrap `torch.autograd.backward`, which `Tensor.backward` calls, and the scalers of losses."""
        torch = self.flow.torch
        patches.wrap(torch.autograd, "backward", self._watch_backward)
        for owner in scalers.owners(torch, "scale"):
            patches.wrap(owner, "scale", self._watch_scale)

    def _watch_backward(self, original: Any) -> Any:
        flow, here, collector = self.flow, self.flow.here, self.collector
        begin, end = self._begin, self._end

        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            if (flow.compiles and flow.is_compiling()) or (at := here.at).backward or not collector.on:
                return original(tensors, *args, **kwargs)
            inside = at.forward
            at.backward = at.forward = at.seen = True  # what is recomputed in here is no forward pass
            began = begin(tensors, at)
            try:
                return original(tensors, *args, **kwargs)
            except BaseException as error:
                at.fail(error)
                raise
            finally:
                at.backward, at.forward = False, inside
                end(began, at)

        return backward

    def _begin(self, tensors: Any, at: At) -> int:
        try:
            now = at.begin(self._code)
            self.flow.backward_open = True
            if self.flow.evaluated:  # a model in evaluation mode trains: this is the loss
                self.flow.evaluated.clear()
            loss = NAN
            if self.losses.on:
                try:
                    loss = self._loss(tensors, at, now)
                except Exception as error:
                    self.losses.fault(error)
            begin = at.forward_end
            if begin:
                at.forward_end = 0
                at.add(LOSS, self._loss_name, begin, now - begin, loss)
            elif loss == loss:
                at.add(SCALAR, self._loss_name, now, 0, loss)
            return now
        except Exception as error:
            self.collector.fault(error)
            return 0

    def _end(self, began: int, at: At) -> None:
        flow = self.flow
        flow.backward_open = False
        if not began:
            return
        try:
            for call in self.before_end:
                call(began)
            at.end_of(self._code)
            deferred = flow.deferred
            if deferred is not None:
                flow.deferred = None
                deferred()
            elif self.clock.predicting is not False:
                self.clock.on_backward_end()
        except Exception as error:
            self.collector.fault(error)

    # -- the loss

    def _watch_scale(self, original: Any) -> Any:
        flow, losses = self.flow, self.losses

        def scale(self: Any, outputs: Any) -> Any:
            result = original(self, outputs)
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
            self._scaled, self._unscaled = weakref.ref(scaled), unscaled.detach()

    def _loss(self, tensors: Any, at: At, now: int) -> float:
        """Return the loss if it is to be recorded and a number, else NaN; write one that is not a number."""
        kind = type(tensors)
        if (kind is tuple or kind is list) and len(tensors) == 1:
            tensors = tensors[0]
        graph = tensors
        if self._scaled is not None:
            if self._scaled() is tensors:
                tensors = self._unscaled
            self._scaled = self._unscaled = None
        if type(tensors) is not self._tensor or self._observed(tensors) or self._modes():
            return NAN
        if self.look is not None and tensors.numel() == 1:
            self.look(tensors, graph)
        if tensors.is_cpu:
            try:
                value = tensors.item()
            except RuntimeError:  # to ask before each time would be dearer
                if tensors.numel() != 1:
                    return NAN
                raise
            if type(value) is float:  # not complex
                session = self.flow.session
                told = "loss" in session.told
                if value - value == 0.0:
                    self.healthy = (session.step, value)
                else:
                    if value != value and not told:
                        at.add(SCALAR, self._loss_name, now, 0, value)
                    if self.on_nonfinite is not None:
                        self.on_nonfinite(graph, value)
                return NAN if told else value
        elif tensors.is_cuda and tensors.numel() == 1 and tensors.is_floating_point():
            self.flow.note_device("cuda")
            self._copy(tensors)
        return NAN

    def _copy(self, loss: Any) -> None:
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
        self._pending.append((self.flow.session.step, host, arrived))
        self.flow.boundary_calls.add(self._read_arrived)

    def _read_arrived(self) -> None:
        pending = self._pending
        while pending and pending[0][2].query():
            step, host, _ = pending.popleft()
            value = host.item()
            if "loss" not in self.flow.session.told:
                self.flow.session.scalar("loss", value, step)
            if self.on_late is not None:
                self.on_late(step, value)
        if not pending:
            self.flow.boundary_calls.discard(self._read_arrived)

    def flush(self) -> None:
        """Write the losses that have arrived; called at detach, when no more will be waited for."""
        with contextlib.suppress(Exception):
            self._read_arrived()
