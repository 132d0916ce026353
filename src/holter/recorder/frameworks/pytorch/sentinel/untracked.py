"""Watches evaluations that run in training mode, where dropout drops and batch norm learns.

A call without gradients is not yet an evaluation: rollouts, teachers, generators and pseudo-labels run
without gradients, too, in training mode and within a step. Two things make it one: a function computes a
single loss without gradients, or the model is called with several batches and no backward pass between.
"""

from __future__ import annotations

from time import perf_counter_ns, thread_time_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.sentinel.callers import Callers, line
from holter.recorder.frameworks.pytorch.tensors.names import class_name, inner

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
    from holter.recorder.frameworks.pytorch.stepping.evaluations import Evaluations
    from holter.recorder.frameworks.pytorch.stepping.roots import Roots
    from holter.recorder.patches import Patches

SHARE = 0.001
"""Largest share of the time of a training that this takes, once it has taken `FREE_NS` of CPU time."""
FREE_NS = 5_000_000
BATCHES = 3
"""Batches in a row without a backward pass that are an evaluation, even without a loss."""
_FACTS = 10


class TrainingModeWatch:
    """Hears of models that are called without gradients."""

    def __init__(
        self, adapter: AdapterState, roots: Roots, evaluations: Evaluations, held: AbstractSet[int]
    ) -> None:
        self.adapter = adapter
        self.breaker = adapter.breaker("sentinel_untracked")
        self._roots, self._evaluations = roots, evaluations
        self._held = held
        """Ids of the parameters that optimizers hold."""
        self._facts = _FACTS
        self._began, self._spent = perf_counter_ns(), 0
        self._evaluated: set[str] = set()
        """Classes of models that were called in evaluation mode."""
        self._step = self._passes = -1
        self._told = False
        self._calls = self._most = self._batches = 0
        """Calls with the last batch, most calls with one, and batches since the last backward pass."""
        self._active: dict[str, Any] | None = None
        self._place = ""
        self._callers = Callers(adapter.torch)

    def attach(self, patches: Patches) -> None:
        """Begin with the first call."""
        self._roots.on_untracked = self._call
        patches.later(self._stop)

    def _stop(self) -> None:
        self._roots.on_untracked = None
        self._unlisten()

    def _call(self, model: Any, fresh: bool) -> None:
        """Look at a model that is about to be called without gradients; `fresh`: after a batch was loaded."""
        if not self.breaker.on or self._roots.compiled:
            return
        try:
            if not model.training:
                self._note_evaluation(class_name(inner(model)))
            elif self.adapter.session.step != self._step or (self._active is not None and not self._told):
                began = thread_time_ns()
                if self.adapter.session.step != self._step and not self._begin(model):
                    return
                if self._active is not None:
                    self._look(fresh)
                self._spent += thread_time_ns() - began
        except Exception as error:
            self.breaker.fault(error)

    def _note_evaluation(self, name: str) -> None:
        if name not in self._evaluated and len(self._evaluated) < _FACTS:
            self._evaluated.add(name)
            self._journal({"evaluated": {"model": name, "step": self.adapter.session.step}})

    def _begin(self, model: Any) -> bool:
        """Prepare for the first call since the last step; return False if the watch has cost too much."""
        if self._facts <= 0:
            self._stop()
            return False
        if self._spent > FREE_NS + SHARE * (perf_counter_ns() - self._began):
            return False
        self._step, self._told = self.adapter.session.step, False
        self._calls = self._most = self._batches = 0
        self._active = self._layers(model)
        return True

    def _look(self, fresh: bool) -> None:
        passes = self.adapter.states.current.pass_began
        if passes != self._passes:  # a backward pass has begun
            self._passes = passes
            self._calls = self._most = self._batches = 0
        if fresh:
            self._calls = 0
        if self._calls == 0:
            caller = self._callers.frame()
            self._place = line(caller) if caller else ""
        self._calls += 1
        self._most = max(self._most, self._calls)
        self._batches += fresh
        if self._batches >= BATCHES:
            self._tell(loss=False)
        elif self._most == 1 and self._batches <= 1:
            self._evaluations.listen(self._on_loss)
            self.adapter.boundary_calls.add(self._unlisten)

    def _unlisten(self) -> None:
        began = thread_time_ns()
        self.adapter.boundary_calls.discard(self._unlisten)
        self._evaluations.listen(None)
        self._spent += thread_time_ns() - began

    def _on_loss(self) -> None:
        """Handle a loss that a function has computed."""
        if self._calls and not self._told and not self.adapter.torch.is_grad_enabled():
            self._tell(loss=True)

    def _layers(self, model: Any) -> dict[str, Any] | None:
        """Count the layers that behave otherwise in training; None for a model that no optimizer trains."""
        model = inner(model)
        if not any(id(one) in self._held for one in model.parameters()):
            return None
        dropout = batch_norm = 0
        averages = False
        for module in model.modules():
            kind = type(module).__name__
            if module.training and "Dropout" in kind and getattr(module, "p", 0):
                dropout += 1
            elif module.training and "BatchNorm" in kind:
                batch_norm += 1
                momentum = getattr(module, "momentum", 0.1)
                averages = averages or momentum is None or momentum == 1.0
        if not dropout and not batch_norm:
            return None
        layers = {"dropout": dropout, "batch_norm": batch_norm, "averages": averages}
        return {"model": class_name(model), **layers}

    def _tell(self, *, loss: bool) -> None:
        self._told = True
        self._facts -= 1
        fact = {"step": self._step, "place": self._place, "loss": loss, "calls": self._most}
        self._journal({"evaluation": {**(self._active or {}), **fact}})

    def _journal(self, detail: dict[str, Any]) -> None:
        self.adapter.session.journal("sentinel", {"time": perf_counter_ns(), **detail})
