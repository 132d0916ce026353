"""Saves tensors that the script passes to `holter.save_tensor`, in the mode of the last called model."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.stepping.adapter_state import EVAL, PREDICT, TRAIN
from holter.recorder.tensors.collections import TensorInfo
from holter.recorder.tensors.explicit import ALWAYS
from holter.recorder.tensors.schedule import MODES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
    from holter.recorder.frameworks.pytorch.stepping.steps import StepClock
    from holter.recorder.frameworks.pytorch.tensors.names import Models
    from holter.recorder.frameworks.pytorch.tensors.sink import Sink
    from holter.recorder.tensors.collections import Collection
    from holter.recorder.tensors.time_budget import TimeBudget


class TorchExplicitSaver:
    """Serves `holter.save_tensor` and `holter.log`, from any thread."""

    def __init__(
        self, adapter: AdapterState, clock: StepClock, models: Models, sink: Sink, time_budget: TimeBudget
    ) -> None:
        self._time_budget = time_budget
        self.breaker = adapter.breaker("saving")
        self.collections: Sequence[Collection] = ()
        self.names_seen: set[str] = set()
        self.waiting = False
        """Whether a tensor was saved since the last written step."""
        self._adapter, self._clock, self._models, self._sink = adapter, clock, models, sink
        self._described = False

    def mode(self) -> int:
        """Return the mode of the last called model."""
        if self._adapter.predicting:
            return PREDICT
        last = self._models.last
        model = None if last is None else last()
        return TRAIN if model is None or model.training else EVAL

    def save(self, name: str, tensor: Any, role: str) -> None:
        """Save a tensor now."""
        if not self.breaker.on:
            return
        began = perf_counter_ns()
        try:
            self._save(name, tensor, role)
        except Exception as error:
            self.breaker.fault(error)
        self._time_budget.held(began, self._adapter.session.step, name)

    def _save(self, name: str, given: Any, role: str) -> None:
        torch, session = self._adapter.torch, self._adapter.session
        step, mode = session.step, self.mode()
        what = TensorInfo(name, "custom", role)
        self.names_seen.add(name)
        due = [one for one in self.collections if one.holds(what)]
        if not due:
            due = [ALWAYS]
            if not self._described:
                self._described = True
                self._sink.files.describe([ALWAYS])
        due = [one for one in due if one.due(MODES[mode], step, session.stride)]
        if not due:
            return
        with torch._C.DisableTorchFunction(), torch.no_grad():
            try:
                tensor = given if isinstance(given, torch.Tensor) else torch.as_tensor(given, device="cpu")
            except (TypeError, ValueError, RuntimeError) as error:
                self._sink.files.tell_once("refused", f"{name!r} cannot be saved as a tensor: {error}")
                return
            self._sink.take(tensor, what, due, step, mode)
        self.waiting = True
        self._adapter.wake_at = min(self._adapter.wake_at, step)
