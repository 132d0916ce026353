"""Copies small results from a device to the host without waiting, and reads them once they arrive."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState

MAX_PENDING = 64
_PATIENCE_S = 2.0


class Arrivals:
    """Results that are being copied. They arrive in the order in which they were sent."""

    def __init__(self, adapter: AdapterState) -> None:
        self._adapter = adapter
        self._queued: list[tuple[Any, Callable[[Any], None]]] = []
        self._pending: deque[tuple[Any, Any, list[tuple[int | None, Callable[[Any], None]]]]] = deque()
        self.breaker = adapter.breaker("arrivals")

    @property
    def crowded(self) -> bool:
        """Whether too many copies are pending to send another."""
        return len(self._pending) >= MAX_PENDING

    def pass_on(self, tensor: Any, call: Callable[[Any], None]) -> None:
        """Call `call` with a tensor on the host: now, or once it has arrived from a device."""
        if tensor.device.type == "cuda":
            self.later(tensor, call)
        else:
            call(tensor)

    def later(self, tensor: Any, call: Callable[[Any], None]) -> None:
        """Call `call` with this tensor on the host, at a step boundary after it has arrived there."""
        self._queued.append((tensor, call))

    def send(self) -> None:
        """Start the queued copies; vectors of doubles of one length and device are copied together."""
        queued, self._queued = self._queued, []
        groups: dict[Any, list[tuple[Any, Callable[[Any], None]]]] = {}
        torch = self._adapter.torch
        for position, (tensor, call) in enumerate(queued):
            vector = tensor.dtype is torch.float64 and tensor.dim() == 1
            key = (tensor.device, tensor.numel()) if vector else (tensor.device, -1 - position)
            groups.setdefault(key, []).append((tensor, call))
        for (device, length), members in groups.items():
            many = torch.stack([tensor for tensor, _ in members]) if length >= 0 else members[0][0].detach()
            with torch.no_grad(), torch.cuda.device(device):
                host = torch.empty(many.shape, dtype=many.dtype, device="cpu", pin_memory=True)
                host.copy_(many, non_blocking=True)
                arrived = torch.cuda.Event()
                arrived.record()
            calls = [(position if length >= 0 else None, call) for position, (_, call) in enumerate(members)]
            self._pending.append((arrived, host, calls))
        if self._pending:
            self._adapter.boundary_calls.add(self.read)

    def read(self) -> None:
        """Pass on the results that have arrived."""
        pending = self._pending
        while pending and pending[0][0].query():
            _, host, calls = pending.popleft()
            for place, call in calls:
                try:
                    call(host if place is None else host[place])
                except Exception as error:
                    self.breaker.fault(error)
        if not pending:
            self._adapter.boundary_calls.discard(self.read)

    def forked(self) -> None:
        """Forget the parent's copies; they stay alive, because a forked child must not touch the device."""
        self._of_parent = (self._queued, self._pending)
        self._queued, self._pending = [], deque()

    def finish(self) -> None:
        """Pass on the pending results at the end of the training; wait for them up to two seconds."""
        deadline = time.monotonic() + _PATIENCE_S
        while self._pending and time.monotonic() < deadline:
            self.read()
            if self._pending:
                time.sleep(0.001)
