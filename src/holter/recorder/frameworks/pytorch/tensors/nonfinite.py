"""Names the first module and parameter with a nonfinite number, from data that exists anyway.

A loss that is not finite is seen before its backward pass, while the graph of the forward pass still exists:
`graph` finds in it the operation that had finite inputs and gave something else, `places` the module that
ran it. Nothing is computed again, no batch is kept, no hook stays. Where the loss lies on a device its value
arrives too late for that; then what the gradients tell must do.
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
    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
    from holter.recorder.frameworks.pytorch.tensors.sink import Sink

_TOLD = 3
"""How often each direction is examined: what is not finite once mostly stays so."""


class Nonfinite:
    """Examines the first steps that are not finite."""

    def __init__(self, adapter: AdapterState, models: Models, sink: Sink) -> None:
        self.adapter = adapter
        self.breaker = adapter.breaker("nonfinite")
        self.places = Places(adapter)
        self._models = models
        self._sink = sink
        self._told: dict[str, list[int]] = {"forward": [], "backward": []}
        self._loss = (-1, 0.0)
        """Step and value of the last loss that was finite."""
        self._spread = False
        """Whether parameters are not finite: then nothing that follows is the first."""

    def on_loss(self, loss: Any, value: float) -> None:
        """A backward pass begins from a loss that is not finite; its graph is still whole."""
        try:
            with self.adapter.torch.no_grad():
                self._forward(loss, value)
        except Exception as error:
            self.breaker.fault(error)

    def on_late(self, step: int, value: float) -> None:
        """A loss has arrived from a device, some steps later."""
        if math.isfinite(value):
            self._loss = (step, value)
        elif self._new("forward", step):
            self._tell(step, "forward", "", "", {}, {"loss": str(value), "late": True})

    def on_gradients(self, step: int, parameters: list[Any], healthy: dict[str, Any]) -> None:
        """Some gradients are not finite: the first of them in the order in which a backward pass goes."""
        try:
            if step in self._told["forward"] or not self._new("backward", step):
                return
            self._models.learn()
            order = [(id(one), what) for one, what in self._models.named()]
            bad = {id(one) for one in parameters}
            names = [what for key, what in order if key in bad]
            first = names[-1].name if names else ""
            given = {} if not names else self._sink.healthy.get(gradient(names[-1]).name, {})
            more = {"parameters": len(parameters), "gradient": given, "healthy": healthy}
            self._tell(step, "backward", first.rpartition(".")[0], first, {}, more)
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
        if bad:  # what went wrong is the update before this step
            self._spread = True
            if self._told["backward"] or len(self._told["forward"]) > 1:
                return
            detail = {"loss": str(value), "parameters": len(bad), "noticed": step}
            self._tell(max(step - 1, 0), "backward", bad[-1].rpartition(".")[0], bad[-1], {}, detail)
            return
        names = {id(one): what.name for one, what in self._models.named()}
        used = parameters_used(loss, names)
        node = culprit(torch, loss)
        if node is None:
            self._tell(step, "forward", "", "", {}, {"loss": str(value)})
            return
        at = number(node)
        before = [name for name, first in sorted(used.items(), key=lambda one: one[1]) if first <= at]
        parameter = before[-1] if before else next(iter(used), "")
        module = self.places.module(at, used)
        if module is None:
            module = parameter.rpartition(".")[0]
        given = {name: self._summary(tensor) for name, tensor in saved_inputs(torch, node).items()}
        first_given = next(iter(given.values()), {})
        self._tell(
            step, "forward", module, parameter, first_given, {"loss": str(value), "operation": node.name()}
        )

    def _summary(self, tensor: Any) -> dict[str, Any]:
        try:
            found = self._sink.statistics.of(local(tensor).cpu(), quantiles=False)
        except TooLong:
            return {"shape": list(tensor.shape)}
        numbers = dict(zip(STATISTICS, found.statistics, strict=True))
        told = {name: value for name, value in numbers.items() if math.isfinite(value)}
        return {**dict(zip(COUNTS, found.counts, strict=True)), **told, "shape": list(tensor.shape)}

    def _new(self, direction: str, step: int) -> bool:
        told = self._told[direction]
        if self._spread or len(told) >= _TOLD or step in told or not self.breaker.on:
            return False
        told.append(step)
        return True

    def _tell(
        self,
        step: int,
        direction: str,
        module: str,
        parameter: str,
        given: dict[str, Any],
        more: dict[str, Any],
    ) -> None:
        healthy = more.pop("healthy", {})
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
            "input": given,
            "last_healthy": healthy,
            **more,
        }
        self.adapter.session.journal("nonfinite", fact)
        if len(self._told[direction]) == 1:
            where = module or ("the loss" if direction == "forward" else parameter or "an unknown module")
            tell(f"step {step}: the {direction} pass gave a number that is not finite, first in {where}")
