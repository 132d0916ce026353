"""Records what Keras does on TensorFlow: the wait for batches inside of the compiled step."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.keras.fused import PARTS, FusedSteps
from holter.recorder.frameworks.tensorflow.pipelines import place
from holter.recorder.frameworks.tensorflow.waits import GraphCall, PipelineWaits

if TYPE_CHECKING:
    from holter.recorder.frameworks.keras.fitting import Fitting
    from holter.recorder.session import Session

TRAINER = "keras.src.backend.tensorflow.trainer"


def attach_to_tensorflow(session: Session, fitting: Fitting) -> None:
    """Time steps on TensorFlow, if that is the backend."""
    if TRAINER not in sys.modules:
        return
    session.attach("tensorflow")
    _OnTensorFlow(session, fitting).attach()


class _OnTensorFlow:
    def __init__(self, session: Session, fitting: Fitting) -> None:
        self._session, self._fitting = session, fitting
        self._fused = FusedSteps(session, fitting)
        self._waits = PipelineWaits(session, session.pipelines.read)
        self._iterator: Any = None
        """The iterator of the batch that comes next."""
        self._at_once = 1

    def attach(self) -> None:
        patches, breaker, fused = self._fitting.patches, self._fitting.breaker, self._fused
        fused.before_step = self._note
        fused.parts, fused.device = self._parts, _device
        fused.attach()
        listed = sys.modules["keras.src.callbacks.callback_list"].CallbackList
        epochs = sys.modules[TRAINER].TFEpochIterator
        patches.after(epochs, "__init__", self._made, breaker)
        patches.after(epochs, "__next__", self._comes, breaker)
        # What the last calls waited must be known before the steps that follow an evaluation end.
        for name in ("on_test_begin", "on_epoch_end", "on_train_end"):
            patches.before(listed, name, self._flush, breaker)

    def _made(self, result: None, epochs: Any, *_: object, **__: object) -> None:
        """Name what makes the batches, if that is a dataset of Keras."""
        batches = getattr(epochs.data_adapter, "py_dataset", None)
        code = getattr(getattr(type(batches), "__getitem__", None), "__code__", None)
        if code is not None:
            self._session.pipelines.generator = place(code)

    def _comes(self, result: Any, *_: object, **__: object) -> None:
        if self._fitting.counts:
            self._iterator = result[2]

    def _note(self, begin: int, end: int) -> None:
        """Note a call of the train function, before its step ends."""
        fitting, iterator = self._fitting, self._iterator
        planned, began = (fitting.callbacks.params or {}).get("steps"), fitting.began
        requests = fitting.at_once
        if planned and planned - began < requests:
            requests = planned - began + 1  # the last of these finds the end
        if type(iterator).__name__ == "OwnedIterator":
            self._waits.note(iterator, GraphCall(begin, end, requests, self._session.step))
            if planned and began + fitting.at_once >= planned:
                self._waits.flush()

    def _flush(self, *_: object, **__: object) -> None:
        if self._fitting.counts or self._fitting.callbacks is not None:
            self._waits.flush()
            self._iterator = None

    def _parts(self) -> tuple[str, ...]:
        """Return the parts that are seen: without its model, tf.data does not tell how long a step waits."""
        iterator = self._iterator
        told = iterator is not None and self._session.pipelines.read(iterator) is not None
        return PARTS if told else tuple(part for part in PARTS if part != "data_loading")


def _device() -> str:
    return "cuda" if sys.modules["tensorflow"].config.list_logical_devices("GPU") else "cpu"
