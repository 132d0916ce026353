"""Records what Keras does on JAX: the wait for batches, within the function that trains on them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.keras.fused import FusedSteps
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
