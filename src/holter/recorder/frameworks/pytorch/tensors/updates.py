"""Reads parameters, gradients and optimizer state before an optimizer's step.

By then, gradients are accumulated, reduced over ranks and unscaled. Clipped gradients are read before the
clipping. Parameters are read before the update, so that they match the gradients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.stepping.adapter_state import TRAIN
from holter.recorder.frameworks.pytorch.tensors.names import Models, full_size, gradient, gradients_freed
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
        self._due: Sequence[Collection] = ()
        self._step = -1
        self._gradients: set[int] = set()
        self._parameters: set[int] = set()
        self.names_seen: set[str] = set()

    def begin(self) -> None:
        """Prepare for a step that is due."""
        self._gradients.clear()
        self._parameters.clear()

    def clip(self, parameters: Iterable[Any], due: Sequence[Collection], step: int) -> None:
        """Take gradients before they are clipped."""
        self._due, self._step = [one for one in due if "gradient" in one.sources], step
        if self._due:
            self._models.learn()
            with self._torch.no_grad(), self._sink.completing():
                for position, parameter in enumerate(parameters):
                    self._gradient(parameter, self._models.parameter(parameter, 0, position))

    def update(self, optimizer: Any, due: Sequence[Collection], step: int, *, skipped: bool = False) -> None:
        """Take the tensors of an optimizer before its step, or when its step is skipped."""
        sources = set().union(*(one.sources for one in due))
        if gradients_freed(optimizer):
            sources.discard("gradient")
        if not sources & {"parameter", "buffer", "gradient", "optimizer_state"}:
            return
        self._due, self._step = due, step
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
                        self._parameter(parameter, what)
                    if "gradient" in sources:
                        self._gradient(parameter, what, state, scale)
                    if "optimizer_state" in sources:
                        self._state(optimizer, parameter, what.name)
            for parameter, what in self._models.named():  # parameters without optimizer, such as frozen ones
                if "parameter" in sources:
                    self._parameter(parameter, what)
                if "gradient" in sources and not parameter.requires_grad:
                    self._gradient(parameter, what, state, scale)
            if "buffer" in sources:  # such as the running statistics of batch normalization
                for buffer, what in self._models.buffers():
                    self._parameter(buffer, what, "")

    def _parameter(self, parameter: Any, what: TensorInfo, frozen: str = "frozen") -> None:
        if id(parameter) not in self._parameters and parameter.numel() == full_size(parameter):
            self._parameters.add(id(parameter))
            self._take(parameter, what, "" if parameter.requires_grad else frozen)

    def _gradient(self, parameter: Any, of: TensorInfo, state: str = "", scale: Any = None) -> None:
        if id(parameter) in self._gradients:
            return
        self._gradients.add(id(parameter))
        what = gradient(of)
        if parameter.requires_grad and parameter.grad is not None:
            self._take(parameter.grad, what, state, scale)
            return
        self.names_seen.add(what.name)
        missing = "unused" if parameter.requires_grad else "frozen"
        self._sink.absent(parameter, what, self._due, self._step, TRAIN, missing)

    def _state(self, optimizer: Any, parameter: Any, name: str) -> None:
        for key, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, self._torch.Tensor) and value.dim():  # not the step count
                self._take(value, TensorInfo(f"{name}/{key}", "optimizer_state", "opt_state"))

    def _take(self, tensor: Any, what: TensorInfo, state: str = "", scale: Any = None) -> None:
        self.names_seen.add(what.name)
        self._sink.take(tensor, what, self._due, self._step, TRAIN, state=state, scale=scale, together=True)
