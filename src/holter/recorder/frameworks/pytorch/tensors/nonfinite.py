"""Finds the first module and parameter with a nonfinite number, from data that exists anyway.

A nonfinite loss is seen before its backward pass, while the graph of the forward pass exists. `graph` finds
the operation with finite inputs and a nonfinite result, and `places` finds its module. Nothing is computed
again, no batch is kept, and no hook stays. The value of a loss on a device arrives too late; then the
gradients must suffice.
"""

from __future__ import annotations

import math
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.tensors.graph import culprit, number, parameters_used, saved_inputs
from holter.recorder.frameworks.pytorch.tensors.names import Models, gradient, local
from holter.recorder.frameworks.pytorch.tensors.places import Places
from holter.recorder.guard import tell
from holter.recorder.tensors.time_budget import TooLong
from holter.schema.tensor_spool import COUNTS, STATISTICS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
    from holter.recorder.frameworks.pytorch.tensors.sink import Sink

_MAX_REPORTS = 3
"""Reports for each direction: a nonfinite number mostly stays nonfinite."""


class Nonfinite:
    """Examines the first steps with a nonfinite number."""

    def __init__(self, adapter: AdapterState, models: Models, sink: Sink) -> None:
        self.adapter = adapter
        self.breaker = adapter.breaker("nonfinite")
        self.places = Places(adapter)
        self._models = models
        self._sink = sink
        self._reported: dict[str, list[int]] = {"forward": [], "backward": []}
        self._loss = (-1, 0.0)
        """Step and value of the last finite loss."""
        self._spread = False
        """Whether parameters are nonfinite: then later findings are consequences."""

    def on_loss(self, loss: Any, value: float) -> None:
        """Examine a nonfinite loss before its backward pass frees the graph."""
        try:
            with self.adapter.torch.no_grad():
                self._forward(loss, value)
        except Exception as error:
            self.breaker.fault(error)

    def on_late(self, step: int, value: float) -> None:
        """Take a loss that has arrived from a device, some steps later."""
        if math.isfinite(value):
            self._loss = (step, value)
        elif self._new("forward", step):
            self._report(step, "forward", loss=str(value), late=True)

    def on_gradients(self, step: int, parameters: list[Any], healthy: Mapping[str, float]) -> None:
        """Report the first nonfinite gradient in the order of the backward pass."""
        try:
            if step in self._reported["forward"] or not self._new("backward", step):
                return
            self._models.learn()
            order = [(id(one), what) for one, what in self._models.named()]
            bad = {id(one) for one in parameters}
            names = [what for key, what in order if key in bad]
            first = names[-1].name if names else ""
            given = {} if not names else self._sink.healthy.get(gradient(names[-1]).name, {})
            count, module = len(parameters), first.rpartition(".")[0]
            self._report(step, "backward", module, first, healthy=healthy, parameters=count, gradient=given)
        except Exception as error:
            self.breaker.fault(error)

    def _forward(self, loss: Any, value: float) -> None:
        step = self.adapter.session.step
        if not self._new("forward", step):
            return
        torch = self.adapter.torch
        self._models.learn()
        named = [(local(one.detach()), what.name) for one, what in self._models.named()]
        bad = [name for one, name in named if one.is_floating_point() and not bool(torch.isfinite(one).all())]
        if bad:  # the update before this step made them
            self._spread = True
            if self._reported["backward"] or len(self._reported["forward"]) > 1:
                return
            module, at = bad[-1].rpartition(".")[0], max(step - 1, 0)
            self._report(at, "backward", module, bad[-1], loss=str(value), parameters=len(bad), noticed=step)
            return
        names = {id(one): what.name for one, what in self._models.named()}
        used = parameters_used(loss, names)
        node = culprit(torch, loss)
        if node is None:
            self._report(step, "forward", loss=str(value))
            return
        at = number(node)
        before = [name for name, first in sorted(used.items(), key=lambda one: one[1]) if first <= at]
        parameter = before[-1] if before else next(iter(used), "")
        place = self.places.module(at, used)
        module = parameter.rpartition(".")[0] if place is None else place
        given = {name: self._summary(tensor) for name, tensor in saved_inputs(torch, node).items()}
        first = next(iter(given.values()), {})
        operation = node.name()
        self._report(step, "forward", module, parameter, given=first, loss=str(value), operation=operation)

    def _summary(self, tensor: Any) -> dict[str, object]:
        try:
            found = self._sink.statistics.of(local(tensor).cpu(), quantiles=False)
        except TooLong:
            return {"shape": list(tensor.shape)}
        numbers = dict(zip(STATISTICS, found.statistics, strict=True))
        finite = {name: value for name, value in numbers.items() if math.isfinite(value)}
        return {**dict(zip(COUNTS, found.counts, strict=True)), **finite, "shape": list(tensor.shape)}

    def _new(self, direction: str, step: int) -> bool:
        reported = self._reported[direction]
        if self._spread or len(reported) >= _MAX_REPORTS or step in reported or not self.breaker.on:
            return False
        reported.append(step)
        return True

    def _report(
        self,
        step: int,
        direction: str,
        module: str = "",
        parameter: str = "",
        *,
        given: Mapping[str, object] | None = None,
        healthy: Mapping[str, object] | None = None,
        **more: object,
    ) -> None:
        healthy = dict(healthy or {})
        loss_step, loss = max(self._loss, (self.adapter.healthy_step, self.adapter.healthy_loss))
        if loss_step >= 0:
            healthy = {**healthy, "step": loss_step, "loss": loss}
        for name in (f"{module}_input_0", f"{module}_output_0"):
            if name in self._sink.healthy:
                healthy[name] = self._sink.healthy[name]
        fact = {
            "time": perf_counter_ns(),
            "name": module or ("loss" if direction == "forward" else parameter),
            "step": step,
            "direction": direction,
            "module": module,
            "parameter": parameter,
            "input": given or {},
            "last_healthy": healthy,
            **more,
        }
        self.adapter.session.journal("nonfinite", fact)
        if len(self._reported[direction]) == 1:
            where = module or ("the loss" if direction == "forward" else parameter or "an unknown module")
            tell(f"step {step}: the {direction} pass gave a number that is not finite, first in {where}")
