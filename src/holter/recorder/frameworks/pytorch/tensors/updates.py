"""Reads parameters, gradients and optimizer state before an optimizer's step.

By then, gradients are accumulated, reduced over ranks and unscaled. Clipped gradients are read before the
clipping. Parameters are read before the update, so that they match the gradients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.stepping.adapter_state import TRAIN
from holter.recorder.frameworks.pytorch.tensors.names import Models, gradient
from holter.recorder.tensors.collections import TensorInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holter.recorder.frameworks.pytorch.tensors.sink import Sink
    from holter.recorder.tensors.collections import Collection


class Updates:
    """Takes each tensor of an optimizer once in a step."""

    def __init__(self, torch: Any, models: Models, sink: Sink) -> None:
        self._torch = torch
        self._models = models
        self._sink = sink
        self._gradients: set[int] = set()
        self._parameters: set[int] = set()
        self.names_seen: set[str] = set()

    def begin(self) -> None:
        """Prepare for a step that is due."""
        self._gradients.clear()
        self._parameters.clear()

    def clip(self, parameters: Iterable[Any], due: Sequence[Collection], step: int) -> None:
        """Take gradients before they are clipped."""
        due = [one for one in due if "gradient" in one.sources]
        if due:
            self._models.learn()
            with self._torch.no_grad(), self._sink.completing():
                for position, parameter in enumerate(parameters):
                    self._gradient(
                        parameter, self._models.parameter(parameter, 0, position), due, step, "", None
                    )

    def update(self, optimizer: Any, due: Sequence[Collection], step: int, *, skipped: bool = False) -> None:
        """Take the tensors of an optimizer before its step, or when its step is skipped."""
        sources = set().union(*(one.sources for one in due)) if due else set()
        if not sources & {"parameter", "buffer", "gradient", "optimizer_state"}:
            return
        self._models.learn(step, (one for group in optimizer.param_groups for one in group["params"]))
        scale = None if skipped else getattr(optimizer, "grad_scale", None)
        if not isinstance(scale, self._torch.Tensor):
            scale = None
        state = "skipped" if skipped else ""
        with self._torch.no_grad(), self._sink.completing():
            for group_number, group in enumerate(optimizer.param_groups):
                for position, parameter in enumerate(group["params"]):
                    what = self._models.parameter(parameter, group_number, position)
                    if "parameter" in sources:
                        self._parameter(parameter, what, due, step)
                    if "gradient" in sources:
                        self._gradient(parameter, what, due, step, state, scale)
                    if "optimizer_state" in sources:
                        self._state(optimizer, parameter, what, due, step)
            for parameter, what in self._models.named():  # parameters without optimizer, such as frozen ones
                if "parameter" in sources:
                    self._parameter(parameter, what, due, step)
                if "gradient" in sources and not parameter.requires_grad:
                    self._gradient(parameter, what, due, step, state, scale)
            if "buffer" in sources:
                self._buffers(due, step)

    def _parameter(self, parameter: Any, what: TensorInfo, due: Sequence[Collection], step: int) -> None:
        if id(parameter) in self._parameters:
            return
        self._parameters.add(id(parameter))
        self.names_seen.add(what.name)
        state = "" if parameter.requires_grad else "frozen"
        self._sink.take(parameter, what, due, step, TRAIN, state=state, together=True)

    def _buffers(self, due: Sequence[Collection], step: int) -> None:
        """Take buffers of models, such as the running statistics of batch normalization."""
        for buffer, what in self._models.buffers():
            if id(buffer) not in self._parameters:
                self._parameters.add(id(buffer))
                self.names_seen.add(what.name)
                self._sink.take(buffer, what, due, step, TRAIN, together=True)

    def _gradient(
        self, parameter: Any, of: TensorInfo, due: Sequence[Collection], step: int, state: str, scale: Any
    ) -> None:
        if id(parameter) in self._gradients:
            return
        self._gradients.add(id(parameter))
        what = gradient(of)
        self.names_seen.add(what.name)
        if not parameter.requires_grad:
            self._sink.absent(parameter, what, due, step, TRAIN, "frozen")
        elif parameter.grad is None:
            self._sink.absent(parameter, what, due, step, TRAIN, "unused")
        else:
            self._sink.take(parameter.grad, what, due, step, TRAIN, state=state, scale=scale, together=True)

    def _state(
        self, optimizer: Any, parameter: Any, of: TensorInfo, due: Sequence[Collection], step: int
    ) -> None:
        for key, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, self._torch.Tensor) and value.dim():  # not the step count
                name = f"{of.name}/{key}"
                self.names_seen.add(name)
                what = TensorInfo(name, "optimizer_state", "opt_state")
                self._sink.take(value, what, due, step, TRAIN, together=True)
