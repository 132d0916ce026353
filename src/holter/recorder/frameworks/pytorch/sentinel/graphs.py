"""Watches evaluations that record graphs for nothing: gradient mode is on, and nothing uses the graphs.

A graph counts as used when a backward pass enters it, or when any backward pass runs before the model trains
again. Nothing here keeps a graph or a tensor alive: a function without references to them is hooked into the
last node of each graph, and goes with it.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.compilers import is_observed
from holter.recorder.frameworks.pytorch.sentinel.callers import Callers, function, line
from holter.recorder.frameworks.pytorch.tensors.names import inner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
    from holter.recorder.frameworks.pytorch.stepping.roots import Roots
    from holter.recorder.patches import Patches

EVALUATIONS = 10
"""Evaluations of a job that are reported."""
CALLS = 200
"""Calls of a model that are watched in one evaluation."""
_MODELS = 8
_TENSORS = 64
_PLAIN = (type(None), str, bytes, int, float, bool)


@dataclass(slots=True, eq=False)
class _Evaluation:
    """The calls of one model in evaluation mode, until it trains again."""

    model: weakref.ref[Any]
    place: str
    function: str
    step: int
    passed: int
    """Begin of the last backward pass before it."""
    calls: int = 0
    used: bool = False

    def use(self, *_: Any) -> None:
        """Note a backward pass that enters one of the graphs; torch calls it."""
        self.used = True


class GraphWatch:
    """Journals evaluations whose graphs nothing has used by the end of the next step."""

    def __init__(self, adapter: AdapterState, roots: Roots) -> None:
        self.adapter, self._roots = adapter, roots
        self.breaker = adapter.breaker("sentinel_graphs")
        self._left = EVALUATIONS
        self._open: dict[int, _Evaluation] = {}
        """By id of the model."""
        self._over: list[_Evaluation] = []
        """Evaluations whose models train again, until the end of the step."""
        self._callers = Callers(adapter.torch)

    def attach(self, patches: Patches) -> None:
        """Hear of evaluations, and see their outputs."""
        self._roots.on_evaluation.append(self._turn)
        self._roots.on_output = self._look
        patches.later(self._stop)

    def _stop(self) -> None:
        self._roots.on_evaluation.remove(self._turn)
        self._roots.on_output = None
        self.adapter.boundary_calls.discard(self._judge)

    def _look(self, module: Any, output: Any) -> None:
        """Watch the graph of an output of a model that evaluates. Raises nothing."""
        if module.training or not (self.breaker.on and self._left and self.adapter.torch.is_grad_enabled()):
            return
        try:
            self._watch(inner(module), output)
        except Exception as error:
            self.breaker.fault(error)

    def _watch(self, model: Any, output: Any) -> None:
        adapter, known = self.adapter, self._open.get(id(model))
        if known is not None and known.model() is not model:
            known = None
        if known is not None and (known.used or known.calls >= CALLS):  # first: it may be part of each step
            return
        if known is None and len(self._open) >= _MODELS:
            return
        if self._roots.compiled or not adapter.session.step or is_observed(adapter.torch._C):
            return
        tensors = list(_tensors(output))
        # Something unseen may use the graphs of other objects.
        plain = all(type(one) is adapter.torch.Tensor and not adapter.observed(one) for one in tensors)
        graphs = [one.grad_fn for one in tensors if one.grad_fn is not None] if plain else []
        if not graphs:
            return
        if known is None:
            caller, passed = self._callers.frame(), adapter.states.current.pass_began
            place, name = (line(caller), function(caller)) if caller else ("", "")
            known = _Evaluation(weakref.ref(model), place, name, adapter.session.step, passed)
            self._open[id(model)] = known
        known.calls += 1
        for graph in graphs:
            graph.register_prehook(known.use)

    def _turn(self, evaluates: bool) -> None:
        if evaluates or not self._open:
            return
        try:
            self._close()
        except Exception as error:
            self.breaker.fault(error)

    def _close(self) -> None:
        """End the evaluations of the models that are in training mode again."""
        for key, one in tuple(self._open.items()):
            model = one.model()
            if model is not None and not model.training:
                continue
            del self._open[key]
            if model is not None and not one.used and one.passed == self.adapter.states.current.pass_began:
                self._over.append(one)
        if self._over:
            self.adapter.boundary_calls.add(self._judge)

    def _judge(self) -> None:
        """Journal the evaluations whose graphs the step has not used either."""
        self.adapter.boundary_calls.discard(self._judge)
        over, self._over = self._over, []
        for one in over:
            model = one.model()
            if one.used or model is None or not self._left:
                continue
            self._left -= 1
            fact = {
                "place": one.place,
                "function": one.function,
                "model": type(model).__qualname__,
                "calls": one.calls,
                "step": one.step,
            }
            self.adapter.session.journal("sentinel", {"time": perf_counter_ns(), "graphs": fact})


def _tensors(output: Any, depth: int = 4) -> Iterator[Any]:
    """Yield the tensors of an output, and all objects in it that may hide tensors."""
    if isinstance(output, dict):
        output = tuple(output.values())
    if isinstance(output, (tuple, list)) and depth and len(output) <= _TENSORS:
        for one in output:
            yield from _tensors(one, depth - 1)
    elif not isinstance(output, _PLAIN):
        yield output
