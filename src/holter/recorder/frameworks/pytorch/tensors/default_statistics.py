"""Records default statistics: gradient norm, nonfinite gradients, update ratios, loss scale.

How often depends on what it costs: at most `SHARE` of the time steps take, and much less of it where steps
are so short that the rest of the recorder is felt already. Norms are one fused call over all gradients;
update ratios look at evenly spaced elements of each group, so that no copy of the parameters is needed.
"""

from __future__ import annotations

import math
import weakref
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.tensors.names import local
from holter.recorder.tensors.schedule import NEVER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
    from holter.recorder.frameworks.pytorch.tensors.arrivals import Arrivals

    OnNonfinite = Callable[[int, list[Any], dict[str, Any]], None]

SHARE = 0.005
SHORT_NS = 25_000_000
SHARE_OF_SHORT = 0.001
INTERVALS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
SAMPLED = 1 << 14
"""Elements of one group of parameters whose update is looked at."""
_PARAMETERS = 16
"""Parameters of one group they come from."""
_BYTES_PER_NS = 1000
"""What a device reads at least in a nanosecond: the part of the cost that the host does not see."""
_SETTLING = 3
"""Readings before the cost counts: first calls cost more."""


class DefaultStatistics:
    """Takes the default statistics at steps that are due, and decides which are."""

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
        self._found: list[tuple[Any, list[Any]]] = []
        """Norms of gradients of this step, and whose they are."""
        self._seen: set[int] = set()
        self._sharded = self._skipped = False
        self._limit: float | None = None
        self._healthy: dict[str, Any] = {}
        self._was_bad = False
        self._before: dict[int, list[tuple[str, Any, list[Any]]]] = {}
        self._optimizers: dict[int, int] = {}
        self._scale: Any = None

    def next(self, step: int) -> int:
        """Return the first step from `step` on at which it is due."""
        return step + -step % self.interval if self.breaker.on else NEVER

    # -- within a step

    def begin(self) -> None:
        """A step that is due begins."""
        self._found.clear()
        self._seen.clear()
        self._before.clear()
        self._limit = self._scale = None
        self._sharded = self._skipped = False

    def clip(self, parameters: Iterable[Any], limit: float | None) -> None:
        """Gradients are about to be clipped to a norm of `limit`: look at them as they are."""
        began = perf_counter_ns()
        self._limit = limit
        with self._torch.no_grad():
            self._norms(parameters, None)
        self._spent += perf_counter_ns() - began

    def before(self, optimizer: Any, *, skipped: bool = False) -> None:
        """An optimizer is about to step, or its step was skipped: look at its gradients."""
        began = perf_counter_ns()
        with self._torch.no_grad():
            scale = None if skipped else getattr(optimizer, "grad_scale", None)
            for group in optimizer.param_groups:
                self._norms(group["params"], scale)
            if skipped:
                self._skipped = True
            else:
                self._sample(optimizer)
        self._spent += perf_counter_ns() - began

    def _norms(self, parameters: Iterable[Any], scale: Any) -> None:
        torch = self._torch
        found: dict[Any, tuple[list[Any], list[Any]]] = {}
        for parameter in parameters:
            gradient = parameter.grad
            if gradient is None or id(parameter) in self._seen:
                continue
            self._seen.add(id(parameter))
            part = local(gradient)
            self._sharded = self._sharded or part is not gradient
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
            norms = torch.stack(torch._foreach_norm(parts, 2, wide)).double()
            if isinstance(scale, torch.Tensor):
                norms = norms / scale.to(device)
            self._found.append((norms, owners))

    def after(self, optimizer: Any) -> None:
        """The optimizer has stepped: tell how far the sampled elements moved."""
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
            trained = [local(one) for one in group["params"] if one.grad is not None]
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
        """The step is over (`began`: monotonic ns): write its numbers, and settle how often this is done."""
        with self._torch.no_grad():
            self._write_norm(step)
            if isinstance(self._scale, self._torch.Tensor):
                self._write(["loss_scale"], self._scale.detach().double().reshape(1))
        self._spent += perf_counter_ns() - began
        self._settle(step)

    def _write_norm(self, step: int) -> None:
        found, limit = list(self._found), self._limit
        sharded, skipped = self._sharded, self._skipped
        if not found:
            return
        device = found[0][0].device
        owners = [owner for _, of_device in found for owner in of_device]
        vector = self._torch.cat([norms.to(device, non_blocking=True) for norms, _ in found])

        def arrived(host: Any) -> None:
            self._told(step, host, owners, limit, sharded=sharded, skipped=skipped)

        if vector.device.type == "cuda":
            self._arrivals.later(vector, arrived)
        else:
            arrived(vector)

    def _told(
        self, step: int, norms: Any, owners: list[Any], limit: float | None, *, sharded: bool, skipped: bool
    ) -> None:
        scalar, told = self.adapter.session.scalar, self.adapter.session.logged_names
        norm = float(norms.norm())
        if sharded or "grad_norm" not in told:
            scalar("grad_norm/shard" if sharded else "grad_norm", norm, step)
        bad = 0
        if math.isfinite(norm):
            self._healthy = {"step": step, "grad_norm": norm}
            if limit is not None and not sharded and "grad_norm_clipped" not in told:
                scalar("grad_norm_clipped", min(norm, limit), step)
        else:
            culprits = _bad(norms, owners)
            bad = len(culprits)
            if not skipped:  # a scaler that looks for its scale skips such steps as a matter of course
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

        if values.device.type == "cuda":
            self._arrivals.later(values, arrived)
        else:
            arrived(values)

    def _settle(self, step: int) -> None:
        now = perf_counter_ns()
        spent, self._spent = self._spent, 0
        self._taken += 1
        if self._last is not None and step > self._last[0]:
            took = (now - self._last[1]) / (step - self._last[0])
            self._step_ns = took if not self._step_ns else 0.7 * self._step_ns + 0.3 * took
        self._last = (step, now)
        if self._taken <= _SETTLING or not self._step_ns:
            # Not at every step until the cost is known: steps may be very short.
            self.interval = INTERVALS[min(self._taken, _SETTLING)]
            return
        self._costs = [*self._costs[-4:], spent]
        share = SHARE if self._step_ns >= SHORT_NS else SHARE_OF_SHORT
        wanted = min(self._costs) / (share * self._step_ns)
        self.interval = next((one for one in INTERVALS if one >= wanted), INTERVALS[-1])


def _bad(norms: Any, owners: list[Any]) -> list[Any]:
    """Return the parameters, those that still exist, whose gradient's norm is not finite."""
    found = [owner() for owner, norm in zip(owners, norms.tolist(), strict=True) if not math.isfinite(norm)]
    return [parameter for parameter in found if parameter is not None]
