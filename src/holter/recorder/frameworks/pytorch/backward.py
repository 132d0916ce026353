"""BACKWARD and LOSS spans, and the value of the loss: the tensor that the backward pass starts from."""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.flow import NAN, TRAIN
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.frameworks.pytorch.flow import Flow
    from holter.recorder.frameworks.pytorch.patches import Patches
    from holter.recorder.frameworks.pytorch.steps import StepClock

LOSS = int(Phase.LOSS)
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
        self._code = flow.code(Phase.BACKWARD, "backward")
        self._loss_name = flow.session.name("loss")
        self._scaled: weakref.ref[Any] | None = None
        self._unscaled: Any = None
        self._pending: deque[tuple[int, Any, Any]] = deque()
        self._next_copy = 0

    def attach(self, patches: Patches) -> None:
        """Wrap `torch.autograd.backward`, which `Tensor.backward` calls, and the scalers of losses."""
        torch = self.flow.torch
        patches.wrap(torch.autograd, "backward", self._watch_backward)
        for path in (("amp", "GradScaler"), ("cuda", "amp", "GradScaler")):
            owner: Any = torch
            for part in path:
                owner = getattr(owner, part, None)
            if owner is not None and "scale" in vars(owner):
                patches.wrap(owner, "scale", self._watch_scale)
        self.flow.at_boundary(self._read_arrived)

    def _watch_backward(self, original: Any) -> Any:
        here, is_compiling, collector = self.flow.here, self.flow.is_compiling, self.collector
        begin, end, fail = self._begin, self._end, self.flow.fail

        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling() or here.backward or not collector.on:
                return original(tensors, *args, **kwargs)
            inside = here.forward
            here.backward = here.forward = here.seen = True  # what is recomputed in here is no forward pass
            began = 0
            try:
                began = begin(tensors)
            except Exception as error:
                collector.fault(error)
            try:
                return original(tensors, *args, **kwargs)
            except BaseException as error:
                fail(error)
                raise
            finally:
                here.backward, here.forward = False, inside
                try:
                    end(began)
                except Exception as error:
                    collector.fault(error)

        return backward

    def _begin(self, tensors: Any) -> int:
        flow, here = self.flow, self.flow.here
        now = perf_counter_ns()
        if here.forward_end:
            begin, here.forward_end = here.forward_end, 0
            flow.marks().add(LOSS, self._loss_name, begin, now - begin)
        if self.losses.on:
            try:
                self._note_loss(tensors)
            except Exception as error:
                self.losses.fault(error)
        flow.backward_open = True
        flow.local.begin(self._code)
        return now

    def _end(self, began: int) -> None:
        flow = self.flow
        flow.backward_open = False
        for call in self.before_end:
            try:
                call(began)
            except Exception as error:
                self.collector.fault(error)
        flow.local.end_of(self._code, NAN, TRAIN)
        deferred, flow.deferred = flow.deferred, None
        if deferred is not None:
            deferred()
        elif self.clock.predicting is not False:
            self.clock.on_backward_end()

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

    def _note_loss(self, tensors: Any) -> None:
        torch = self.flow.torch
        if type(tensors) in (list, tuple) and len(tensors) == 1:
            tensors = tensors[0]
        scaled, unscaled = self._scaled, self._unscaled
        self._scaled = self._unscaled = None
        if scaled is not None and scaled() is tensors:
            tensors = unscaled
        if (
            type(tensors) is not torch.Tensor
            or tensors.numel() != 1
            or not tensors.is_floating_point()
            or _observed(torch, tensors)
        ):
            return
        if tensors.is_cpu:
            self.flow.session.scalar("loss", tensors.item())
        elif tensors.is_cuda:
            self.flow.note_device("cuda")
            self._copy(tensors)

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

    def _read_arrived(self) -> None:
        pending = self._pending
        while pending and pending[0][2].query():
            step, host, _ = pending.popleft()
            self.flow.session.scalar("loss", host.item(), step)

    def flush(self) -> None:
        """Write the losses that have arrived; called at detach, when no more will be waited for."""
        with contextlib.suppress(Exception):
            self._read_arrived()


def _observed(torch: Any, tensor: Any) -> bool:
    """Whether somebody watches tensor operations (a function or dispatch mode), who must not see ours."""
    if torch.overrides.has_torch_function_unary(tensor):
        return True
    depth = getattr(torch._C, "_len_torch_dispatch_stack", None)
    return bool(depth is not None and depth())
