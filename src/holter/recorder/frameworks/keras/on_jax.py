"""Records what Keras does on JAX: the wait for batches, within the function that trains on them.

In a loop of the script, a compiled function whose trace calls a model with `training=False` evaluates.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.jax import transforms
from holter.recorder.frameworks.keras.fused import FusedSteps
from holter.recorder.steps import TRAINERS
from holter.schema.phases import NEXT_BATCH, Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holter.recorder.frameworks.keras.fitting import Fitting
    from holter.recorder.session import Session

TRAINER = "keras.src.backend.jax.trainer"


def attach_to_jax(session: Session, fitting: Fitting) -> None:
    """Time steps on JAX, if that is the backend."""
    if TRAINER not in sys.modules:
        return
    fused = FusedSteps(session, fitting)
    fused.device = _device
    fused.attach()
    code = session.name(NEXT_BATCH) << 8 | int(Phase.DATA_LOADING)

    def watch(original: Any) -> Callable[..., Any]:
        def _get_iterator(epoch: Any) -> Any:
            return _Batches(session, code, iter(original(epoch)))

        return _get_iterator

    fitting.patches.wrap(sys.modules[TRAINER].JAXEpochIterator, "_get_iterator", watch)
    model, breaker = sys.modules["keras.src.models.model"].Model, fitting.breaker

    def note(*_: object, **options: object) -> None:
        """Let the function that is traced now evaluate, if it calls a model that does not train."""
        traced = transforms._local.stack
        if traced and options.get("training") is False and session.step_owner not in TRAINERS:
            traced[0].evaluates = True

    fitting.patches.before(model, "stateless_call", note, breaker)


class _Batches:
    """The batches of an epoch; each wait for one is a span."""

    def __init__(self, session: Session, code: int, batches: Iterator[Any]) -> None:
        self._session, self._code, self._batches = session, code, batches

    def __iter__(self) -> _Batches:
        return self

    def __next__(self) -> Any:
        local = self._session.local
        local.begin(self._code)
        try:
            return next(self._batches)
        finally:
            local.end_of(self._code)


def _device() -> str:
    backend = sys.modules["jax"].default_backend()
    return "cuda" if backend == "gpu" else str(backend)
