"""Counts the batches of `fit` as steps, and times evaluations, checkpoints and callbacks."""

from __future__ import annotations

import sys
from functools import partial
from math import prod
from threading import get_ident
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any
from weakref import ref

from holter.recorder.frameworks.spans import timed
from holter.recorder.frameworks.written import size_written
from holter.recorder.patches import Patches, hide
from holter.schema.phases import Mode, Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.session import Session

OWNER = "keras"
_CALLED = (
    "on_train_begin",
    "on_epoch_begin",
    "on_train_batch_begin",
    "on_batch_begin",
    "on_train_batch_end",
    "on_batch_end",
    "on_epoch_end",
    "on_train_end",
)
"""Methods of callbacks that are timed under the name of the callback's class."""
_SAVES = (
    ("keras.src.saving.saving_lib", "save_model", "Model.save"),
    ("keras.src.saving.saving_lib", "save_weights_only", "Model.save_weights"),
    ("keras.src.legacy.saving.legacy_h5_format", "save_model_to_hdf5", "Model.save"),
)
"""Module, function, and the name of its span. `ModelCheckpoint` and `BackupAndRestore` call them, too."""
MOST_STEPS = 2**53
MOST_FACTS = 20_000
"""Begins of epochs and of trainings that are journaled."""


class Fitting:
    """The `fit` that counts: the outermost of the thread that began first."""

    def __init__(self, session: Session, version: str) -> None:
        self.session, self.version = session, version
        self.patches, self.breaker = Patches(), session.breaker("keras")
        self.callbacks: Any = None
        """The `CallbackList` of the training; None outside of one."""
        self.base = 0
        """The step of the epoch's first batch."""
        self.validates = False
        """Whether an `evaluate` of its own runs, outside of `fit`."""
        self.before_end: Callable[[], None] = lambda: None
        """Called before a step ends."""
        self.ended: Callable[[], None] = lambda: None
        """Called when the outermost call of the trainer has ended. Raises nothing."""
        self.tells = True
        """Whether the framework is known before the first step."""
        self.at_once = 1
        """Batches of one call."""
        self.began = 0
        """Index of the first batch of this step."""
        self._thread = 0
        self._depth = 0
        """Calls of the trainer that are open on that thread; a callback may train another model."""
        self._first_epoch = 0
        self._model: Callable[[], Any] = lambda: None
        """Returns the model that trained last, as long as it exists."""
        self._tells_model = False
        """Whether another model trains, which is built once it has seen a batch."""
        self._facts = 0
        self._watched: set[tuple[type, str]] = set()
        self._open = ""
        """The callback that runs."""

    @property
    def counts(self) -> bool:
        """Whether the calling thread is within the `fit` that counts, and not in another one inside it."""
        return self._thread == get_ident() and self._depth == 1

    def attach(self) -> None:
        """Hook the trainer, its list of callbacks, and what writes models."""
        trainer = sys.modules["keras.src.models.model"].Trainer
        listed = sys.modules["keras.src.callbacks.callback_list"].CallbackList
        patches, breaker, session = self.patches, self.breaker, self.session
        for name, mode in (("fit", None), ("evaluate", Mode.EVAL), ("predict", Mode.PREDICT)):
            patches.wrap(trainer, name, partial(self._called, name=name, mode=mode))
        patches.before(listed, "on_train_begin", self._on_train_begin, breaker)
        patches.before(listed, "on_epoch_begin", self._on_epoch_begin, breaker)
        patches.before(listed, "on_train_batch_begin", self._on_batch_begin, breaker)
        patches.after(listed, "on_train_batch_end", self._on_batch_end, breaker)
        for module, function, name in _SAVES:
            owner = sys.modules.get(module)
            saves = partial(timed, session, breaker, phase=Phase.CHECKPOINT, name=name, value=size_written)
            if owner is not None:
                patches.wrap(owner, function, saves)

    # -- the trainer

    def _called(self, original: Any, name: str, mode: Mode | None) -> Callable[..., Any]:
        """Wrap a method of the trainer, which owns the steps while it runs; one with a mode evaluates."""

        def span(model: Any, *_: object, **__: object) -> str:
            return self._name_of(model, name)

        if mode is not None:
            original = timed(self.session, self.breaker, original, Phase.EVAL, span, mode=mode)

        def wrapper(model: Any, *args: Any, **kwargs: Any) -> Any:
            entered = False
            try:
                entered = self.breaker.on and self._enter(model, name)
                if entered and name == "fit" and self._depth == 1:
                    self._first_epoch = kwargs.get("initial_epoch") or 0
            except Exception as error:
                self.breaker.fault(error)
            try:
                return original(model, *args, **kwargs)
            except BaseException as error:
                hide(error)
                raise
            finally:
                if entered:
                    self._leave()

        return wrapper

    def _name_of(self, model: Any, name: str) -> str:
        """Return the name of an evaluation's span; a model that cannot train makes the steps of inference."""
        if self.callbacks is not None and self._thread == get_ident():
            return "validation" if name == "evaluate" else name
        return name if model.compiled else ""

    def _enter(self, model: Any, name: str) -> bool:
        if self._thread not in (0, get_ident()):
            return False
        if not self._depth:
            if not model.compiled:
                return False
            self.session.claim_steps(OWNER)
            self._thread, self.validates = get_ident(), name == "evaluate"
        self._depth += 1
        return True

    def _leave(self) -> None:
        self._depth -= 1
        if not self._depth:
            self.ended()
            self._thread, self.callbacks, self.validates = 0, None, False
            self._open = ""
            self.session.release_steps(OWNER)

    # -- its callbacks

    def _on_train_begin(self, callbacks: Any, *_: object, **__: object) -> None:
        if not self.counts:
            return
        session = self.session
        self.callbacks, self.base = callbacks, session.step
        at_once = getattr(model_of(callbacks), "steps_per_execution", 1)
        self.at_once = at_once if isinstance(at_once, int) else 1
        session.step_by(self.at_once)
        self._tells_model = self._model() is not model_of(callbacks)
        if self.tells and not self._facts:
            session.journal("framework", {"name": OWNER, "version": self.version})
        given = callbacks.params or {}
        steps, epochs = given.get("steps"), given.get("epochs")
        if steps and epochs:
            left = steps * (epochs - self._first_epoch)
            if 0 < left < MOST_STEPS:
                self._journal("planned", {"trainer": "keras.Model.fit", "steps": session.step + left})
        if not session.step:
            session.since = perf_counter_ns()  # building the model is not part of the first step
        for callback in callbacks.callbacks:
            self._watch(type(callback))

    def _on_epoch_begin(self, callbacks: Any, epoch: int, *_: object, **__: object) -> None:
        if self.counts and callbacks is self.callbacks:
            self.base = self.session.step
            fact = {"number": int(epoch) + 1, "step": self.base, "time": perf_counter_ns()}
            self._journal("epoch", fact)

    def _journal(self, kind: str, fact: dict[str, Any]) -> None:
        """Journal a fact; a script may call `fit` for each of a million steps."""
        self._facts += 1
        if self._facts <= MOST_FACTS:
            self.session.journal(kind, fact)

    def _tell_model(self, model: Any) -> None:
        """Journal the class and the size of the model that trains from this epoch on."""
        self._model = ref(model)
        size = sum(prod(one.shape) for one in model.trainable_variables)
        self._journal(
            "model", {"step": self.base, "model": f"{type(model).__qualname__} of {size} parameters"}
        )

    def _on_batch_begin(self, callbacks: Any, batch: int, *_: object, **__: object) -> None:
        if callbacks is self.callbacks:
            self.began = batch

    def _on_batch_end(self, result: object, callbacks: Any, batch: int, *_: object, **__: object) -> None:
        if not self.counts or callbacks is not self.callbacks:
            return
        if self._tells_model:
            self._tells_model = False
            self._tell_model(model_of(callbacks))
        self.before_end()
        if self.session.step_owner == OWNER:
            self.session.boundary(manual=True, steps=self.last_of(batch) - self.began + 1)

    def last_of(self, batch: int) -> int:
        """Return the last batch of an execution, whose end Keras reports as if the execution were full."""
        planned = (self.callbacks.params or {}).get("steps")
        return min(batch, planned - 1) if planned and planned > self.began else batch

    def _watch(self, callback: type) -> None:
        """Time the methods that a callback has of its own."""
        default = sys.modules["keras.src.callbacks.callback"].Callback
        for method in _CALLED:
            owner = next((one for one in callback.__mro__ if method in vars(one)), default)
            if owner is not default and (owner, method) not in self._watched:
                self._watched.add((owner, method))
                self.patches.wrap(owner, method, self._timed_callback)

    def _timed_callback(self, original: Any) -> Callable[..., Any]:
        """Wrap a method of a callback, but for calls in threads of Keras, which delay no step."""

        def name(callback: Any, *_: object, **__: object) -> str:
            if not self.counts or self._open:
                return ""
            self._open = type(callback).__qualname__
            return f"callback {self._open}"

        def ended(*_: object, **__: object) -> None:
            self._open = ""

        return timed(self.session, self.breaker, original, Phase.ANNOTATION, name, ended=ended)


def model_of(callbacks: Any) -> Any:
    """Return the model of a list of callbacks without its property, which copies the state of JAX to it."""
    return getattr(callbacks, "_model", None)
