"""Records default statistics: gradient norm, nonfinite gradients, update ratios, loss scale, GPU memory.

The interval depends on the cost: at most `SHARE` of the time of steps, and much less for short steps, where
the rest of the recorder costs more. Norms are one fused call over all gradients. Update ratios use evenly
spaced elements of each group, so that no copy of the parameters is needed.
"""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.tensors.names import gradients_freed, local
from holter.recorder.tensors.schedule import NEVER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
    from holter.recorder.frameworks.pytorch.tensors.arrivals import Arrivals

    OnNonfinite = Callable[[int, list[Any], Mapping[str, float]], None]

SHARE = 0.005
SHORT_NS = 25_000_000
SHARE_OF_SHORT = 0.001
INTERVALS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
SAMPLED = 1 << 14
"""Elements of one parameter group whose updates are measured."""
_PARAMETERS = 16
"""Parameters of one group from which they come."""
_BYTES_PER_NS = 1000
"""Bytes that a device reads in a nanosecond at least: the cost that the host does not see."""
_WARM_UP = 3
"""Readings before the cost counts: first calls cost more."""

MEMORY_EVERY = 50
"""Steps between two readings of the memory of the GPU."""
_MEMORY = {
    "cuda.allocated": "allocated_bytes.all.current",
    "cuda.allocated_peak": "allocated_bytes.all.peak",
    "cuda.reserved_peak": "reserved_bytes.all.peak",
    "cuda.inactive_split": "inactive_split_bytes.all.current",
    "cuda.alloc_retries": "num_alloc_retries",
    "cuda.ooms": "num_ooms",
}
"""Name of a scalar → name in torch's memory statistics."""


@dataclass(slots=True)
class _Norms:
    """Norms of the gradients of one step."""

    found: list[tuple[Any, list[Any]]] = field(default_factory=list)
    """Norms, and weak references to their parameters, by device and type."""
    seen: set[int] = field(default_factory=set)
    sharded: bool = False
    skipped: bool = False
    limit: float | None = None
    """The norm to which gradients are clipped."""


class DefaultStatistics:
    """Takes the default statistics at steps that are due, and decides which steps are due."""

    def __init__(self, adapter: AdapterState, arrivals: Arrivals, on_nonfinite: OnNonfinite) -> None:
        self.adapter = adapter
        self.breaker = adapter.breaker("default_statistics")
        self.interval = 1
        self._torch = adapter.torch
        self._arrivals = arrivals
        self._on_nonfinite = on_nonfinite
        self._costs: list[int] = []
        self._spent = 0
        self._taken = 0
        self._last: tuple[int, int] | None = None
        self._step_ns = 0.0
        self._norms = _Norms()
        self._healthy: dict[str, float] = {}
        self._was_bad = False
        self._before: dict[int, list[tuple[str, Any, list[Any]]]] = {}
        self._optimizers: dict[int, int] = {}
        self._scale: Any = None
        self._memory_at = 1

    def next(self, step: int) -> int:
        """Return the first step from `step` on that is due."""
        return step + -step % self.interval if self.breaker.on else NEVER

    # -- within a step

    def begin(self) -> None:
        """Prepare for a step that is due."""
        self._norms = _Norms()
        self._before.clear()
        self._scale = None

    def clip(self, parameters: Iterable[Any], limit: float | None) -> None:
        """Read gradients before they are clipped to a norm of `limit`."""
        began = perf_counter_ns()
        self._norms.limit = limit
        with self._torch.no_grad():
            self._read_norms(parameters, None)
        self._spent += perf_counter_ns() - began

    def before(self, optimizer: Any, *, skipped: bool = False) -> None:
        """Read the gradients of an optimizer before its step, or when its step is skipped."""
        began = perf_counter_ns()
        with self._torch.no_grad():
            scale = None if skipped else getattr(optimizer, "grad_scale", None)
            if not gradients_freed(optimizer):
                for group in optimizer.param_groups:
                    self._read_norms(group["params"], scale)
            if skipped:
                self._norms.skipped = True
            else:
                self._sample(optimizer)
        self._spent += perf_counter_ns() - began

    def _read_norms(self, parameters: Iterable[Any], scale: Any) -> None:
        torch, norms = self._torch, self._norms
        found: dict[Any, tuple[list[Any], list[Any]]] = {}
        for parameter in parameters:
            gradient = parameter.grad
            if gradient is None or id(parameter) in norms.seen:
                continue
            norms.seen.add(id(parameter))
            part = local(gradient)
            norms.sharded = norms.sharded or part is not gradient
            part = part if part.layout is torch.strided else part.coalesce().values()
            if part.numel() == 0 or part.device.type not in ("cpu", "cuda"):
                continue
            parts, owners = found.setdefault((part.device, part.dtype), ([], []))
            parts.append(part)
            owners.append(weakref.ref(parameter))
            if part.device.type == "cuda":
                self._spent += part.numel() * part.element_size() // _BYTES_PER_NS
        for (device, dtype), (parts, owners) in found.items():
            wide = torch.float64 if dtype is torch.float64 else torch.float32
            values = torch.stack(torch._foreach_norm(parts, 2, wide)).double()
            if isinstance(scale, torch.Tensor):
                values = values / scale.to(device)
            norms.found.append((values, owners))

    def after(self, optimizer: Any) -> None:
        """Write the update ratios of the sampled elements after a step of an optimizer."""
        sampled = self._before.pop(id(optimizer), None)
        if not sampled:
            return
        began = perf_counter_ns()
        torch = self._torch
        with torch.no_grad():
            ratios = []
            for _, views, before in sampled:
                old = torch.cat(before).double()
                new = torch.cat([view.reshape(-1) for view in views]).double()
                ratios.append((new - old).norm() / old.norm())
            names = [f"update_ratio/{name}" for name, _, _ in sampled]
            self._write(names, torch.stack(ratios))
        self._spent += perf_counter_ns() - began

    def note_scale(self, scaler: Any) -> None:
        """Remember the scale of the loss at this step."""
        self._scale = getattr(scaler, "_scale", None)

    def _sample(self, optimizer: Any) -> None:
        """Copy evenly spaced elements of each group."""
        number = self._optimizers.setdefault(id(optimizer), len(self._optimizers))
        if len(self._optimizers) > 1000:
            self._optimizers.clear()
        found = []
        for position, group in enumerate(optimizer.param_groups):
            freed = gradients_freed(optimizer)
            trained = [local(one) for one in group["params"] if freed or one.grad is not None]
            trained = [
                one
                for one in trained[:: len(trained) // _PARAMETERS + 1]
                if one.numel() and one.is_floating_point()
            ]
            if not trained or any(one.device != trained[0].device for one in trained):
                continue
            each = SAMPLED // len(trained)
            views = [
                one.detach().view(-1)[:: one.numel() // each + 1] for one in trained if one.is_contiguous()
            ]
            if views:
                name = str(group.get("name", f"group{position}"))
                name = name if number == 0 else f"optimizer{number}.{name}"
                found.append((name, views, [view.clone() for view in views]))
        self._before[id(optimizer)] = found

    # -- the end of a step

    def finish(self, step: int, began: int) -> None:
        """Write the numbers of a step and adapt the interval; `began`: when the boundary began, ns."""
        with self._torch.no_grad():
            self._write_norm(step)
            if isinstance(self._scale, self._torch.Tensor):
                self._write(["loss_scale"], self._scale.detach().double().reshape(1))
        self._spent += perf_counter_ns() - began
        self._adapt(step)

    def write_memory(self, step: int) -> None:
        """Write the memory of the current GPU from time to time, if the training has initialized CUDA."""
        cuda = self._torch.cuda
        if step < self._memory_at:
            return
        self._memory_at = step + MEMORY_EVERY
        if not cuda.is_initialized():
            return
        statistics = cuda.memory_stats()
        scalar = self.adapter.session.scalar
        for name, key in _MEMORY.items():
            if key in statistics:
                scalar(name, float(statistics[key]), step)
        scalar("cuda.total", float(cuda.get_device_properties(cuda.current_device()).total_memory), step)

    def _write_norm(self, step: int) -> None:
        found = self._norms.found
        if found:
            device = found[0][0].device
            vector = self._torch.cat([values.to(device, non_blocking=True) for values, _ in found])
            self._arrivals.pass_on(vector, partial(self._write_total, step, self._norms))

    def _write_total(self, step: int, norms: _Norms, values: Any) -> None:
        scalar, logged = self.adapter.session.scalar, self.adapter.session.logged_names
        norm = float(values.norm())
        if norms.sharded or "grad_norm" not in logged:
            scalar("grad_norm/shard" if norms.sharded else "grad_norm", norm, step)
        bad = 0
        if math.isfinite(norm):
            self._healthy = {"step": step, "grad_norm": norm}
            if norms.limit is not None and not norms.sharded and "grad_norm_clipped" not in logged:
                scalar("grad_norm_clipped", min(norm, norms.limit), step)
        else:
            owners = [owner() for _, of_device in norms.found for owner in of_device]
            culprits = [
                owner
                for owner, value in zip(owners, values.tolist(), strict=True)
                if owner is not None and not math.isfinite(value)
            ]
            bad = len(culprits)
            if not norms.skipped:  # a scaler that searches for its scale skips steps regularly
                self._on_nonfinite(step, culprits, self._healthy)
        if bad or self._was_bad:
            scalar("nonfinite_gradients", float(bad), step)
        self._was_bad = bad > 0

    def _write(self, names: list[str], values: Any) -> None:
        step, scalar = self.adapter.session.step, self.adapter.session.scalar

        def arrived(host: Any) -> None:
            for name, value in zip(names, host.tolist(), strict=True):
                if value == value and name not in self.adapter.session.logged_names:
                    scalar(name, value, step)

        self._arrivals.pass_on(values, arrived)

    def _adapt(self, step: int) -> None:
        now = perf_counter_ns()
        spent, self._spent = self._spent, 0
        self._taken += 1
        if self._last is not None and step > self._last[0]:
            took = (now - self._last[1]) / (step - self._last[0])
            self._step_ns = took if not self._step_ns else 0.7 * self._step_ns + 0.3 * took
        self._last = (step, now)
        if self._taken <= _WARM_UP or not self._step_ns:
            # Steps may be very short, so not at every step until the cost is known.
            self.interval = INTERVALS[min(self._taken, _WARM_UP)]
            return
        self._costs = [*self._costs[-4:], spent]
        share = SHARE if self._step_ns >= SHORT_NS else SHARE_OF_SHORT
        wanted = min(self._costs) / (share * self._step_ns)
        self.interval = next((one for one in INTERVALS if one >= wanted), INTERVALS[-1])
