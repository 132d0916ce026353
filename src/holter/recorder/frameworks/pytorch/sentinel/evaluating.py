"""Watches the first calls of models that evaluate: dropout that is active."""

from __future__ import annotations

import sys
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.compilers import known_to_script
from holter.recorder.frameworks.pytorch.sentinel.callers import Callers, function, line
from holter.recorder.patches import Patches, preceded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
    from holter.recorder.frameworks.pytorch.stepping.roots import Roots

WATCHED = 200
"""Calls of models that are watched."""
_DROPOUTS = ("dropout", "dropout_", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
_PLACES = 10


class EvaluationWatch:
    """Wraps torch's dropout while a model evaluates."""

    def __init__(self, adapter: AdapterState, roots: Roots) -> None:
        self.adapter, self._roots = adapter, roots
        self.breaker = adapter.breaker("sentinel_evaluation")
        self._patches = Patches()
        self._wrapped = False
        self._left = WATCHED
        self._places: set[str] = set()
        self._wrappers: dict[Any, Callable[..., Any]] = {}
        """By original function; they stay alive, because TorchScript knows functions by address."""
        self._callers = Callers(adapter.torch)

    def attach(self, patches: Patches) -> None:
        """Hear of evaluations."""
        self._roots.on_evaluation.append(self._turn)
        patches.later(self._stop)

    def _stop(self) -> None:
        self._roots.on_evaluation.remove(self._turn)
        self._patches.undo()

    def _turn(self, evaluates: bool) -> None:
        if not self.breaker.on:
            return
        try:
            self._watch(evaluates)
        except Exception as error:
            self.breaker.fault(error)

    def _watch(self, evaluates: bool) -> None:
        if self._wrapped and (not evaluates or self._left <= 0):
            self._patches.undo()
            self._wrapped = False
        if not evaluates or self._left <= 0 or self._roots.compiled:
            return
        self._left -= 1
        if not self._wrapped:
            self._wrapped = True
            torch = self.adapter.torch
            for name in _DROPOUTS:
                self._patches.wrap(torch._VF, name, partial(self._kept, self._wrap))
            attention = partial(self._kept, self._wrap_attention)
            self._patches.wrap(torch.nn.functional, "scaled_dot_product_attention", attention)

    def _kept(self, wrap: Callable[[Any], Callable[..., Any]], original: Any) -> Callable[..., Any]:
        if original not in self._wrappers:
            self._wrappers[original] = wrap(original)
            known_to_script(self.adapter.torch, self._wrappers[original], original)
        return self._wrappers[original]

    def _wrap(self, original: Any) -> Callable[..., Any]:
        def look(_: Any, probability: float = 0.5, train: bool = True) -> None:
            if train and probability:
                self._note(probability)

        return preceded(original, look, self.breaker)

    def _wrap_attention(self, original: Any) -> Callable[..., Any]:
        def look(*args: Any, **kwargs: Any) -> None:
            probability = args[4] if len(args) > 4 else kwargs.get("dropout_p", 0.0)
            if probability:
                self._note(probability)

        return preceded(original, look, self.breaker)

    def _note(self, probability: float) -> None:
        """Journal the place that calls dropout, and whether the module that calls it is in training mode."""
        if self.adapter.is_compiling() or len(self._places) >= _PLACES:
            return
        caller = self._callers.frame()
        if caller is None or (place := line(caller)) in self._places:
            return
        self._places.add(place)
        # Only now, because before Python 3.13 a frame keeps what `f_locals` has returned, tensors too.
        frames = _outward(sys._getframe(2), caller)
        modes = (getattr(one.f_locals.get("self"), "training", None) for one in frames)
        fact = {
            "place": place,
            "function": function(caller),
            "p": float(probability),
            "training": bool(next((mode for mode in modes if mode is not None), False)),
            "step": self.adapter.session.step,
        }
        self.adapter.session.journal("sentinel", {"time": perf_counter_ns(), "dropout": fact})


def _outward(frame: FrameType | None, last: FrameType) -> Iterator[FrameType]:
    """Yield the frames from `frame` to `last`, one of its callers."""
    while frame is not None and frame is not last:
        yield frame
        frame = frame.f_back
    yield last
