"""Records steps that Keras runs in one piece, on JAX and TensorFlow, and those of `train_on_batch`."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks._turns import Turns
from holter.recorder.frameworks._variables import Variables
from holter.recorder.frameworks.keras.fitting import OWNER, model_of
from holter.recorder.frameworks.spans import timed
from holter.recorder.patches import hide
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holter.recorder.frameworks.keras.fitting import Fitting
    from holter.recorder.session import Session

PARTS = ("data_loading", "compute", "checkpoint", "eval")
"""The parts of a step that are seen."""


class FusedSteps:
    """Times the function that trains on a batch, and ends a step after `train_on_batch`."""

    def __init__(self, session: Session, fitting: Fitting) -> None:
        self.session, self.fitting = session, fitting
        self.began = 0
        """When the call of the train function began; 0 outside of one."""
        self.before_step: Callable[[int, int], None] = lambda begin, end: None
        """Called with begin and end of a call, before its step ends."""
        self.parts: Callable[[], tuple[str, ...]] = lambda: PARTS
        """Returns the parts that are seen, once a step has ended."""
        self.device: Callable[[], str | None] = lambda: None
        self._turns = Turns()
        self._variables = Variables(session, "Keras on JAX and TensorFlow")
        self._told = False
        self._compute = session.name("train function") << 8 | int(Phase.COMPUTE)

    def attach(self) -> None:
        """Hook the batches of `fit`, `train_on_batch`, and what waits for the device."""
        patches, breaker = self.fitting.patches, self.fitting.breaker
        self.fitting.tells, self.fitting.ended = False, self.close
        listed = sys.modules["keras.src.callbacks.callback_list"].CallbackList
        trainer = sys.modules["keras.src.models.model"].Trainer
        patches.after(listed, "on_train_batch_begin", self._begin, breaker)
        patches.before(listed, "on_train_batch_end", self._end, breaker)
        patches.wrap(trainer, "train_on_batch", self._on_batch)
        patches.before(trainer, "compile", self._expect, breaker)
        waits = partial(timed, self.session, breaker, phase=Phase.COMPUTE, name=self._waits)
        patches.wrap(sys.modules["keras.src.utils.python_utils"], "pythonify_logs", waits)
        patches.wrap(listed, "_flush_futures", waits)
        patches.before(listed, "on_test_begin", lambda *_, **__: self.close(), breaker)
        patches.before(listed, "on_epoch_end", lambda *_, **__: self.close(), breaker)

    def _begin(self, result: object, callbacks: Any, *_: object, **__: object) -> None:
        if self.fitting.counts and callbacks is self.fitting.callbacks:
            self._turns.forget(id(model_of(callbacks)))
            self.began = self.session.local.begin(self._compute)

    def _end(self, callbacks: Any, *_: object, **__: object) -> None:
        if self.began and self.fitting.counts and callbacks is self.fitting.callbacks:
            began, self.began = self.began, 0
            now = self.session.local.end_of(self._compute)
            self.before_step(began, now)
            self._save(model_of(callbacks))
            if not self._told:
                self._tell(self.parts())

    def _save(self, model: Any) -> None:
        """Save the weights of a model, if they are due."""
        if not self._variables.due:
            return
        # `fit` on JAX keeps the values apart from the variables, until an epoch ends.
        state = getattr(model, "_jax_state", None) or {}
        variables = model.trainable_variables
        values = state.get("trainable_variables") or variables
        self._variables.save(
            ("parameter", variable.path, partial(_on_host, value))
            for variable, value in zip(variables, values, strict=True)
        )

    def close(self) -> None:
        """End a call that has raised, as it does where an epoch of unknown length has no more batches."""
        if self.began:
            self.began = 0
            self.session.local.end_of(self._compute)

    def _tell(self, parts: Sequence[str]) -> None:
        """Journal the framework when it is known what is seen of a step."""
        if not self._told:
            self._told = True
            fact = {"name": OWNER, "version": self.fitting.version, "device": self.device()}
            self.session.journal("framework", {**fact, "parts": list(parts)})

    def _waits(self, what: Any = None, *_: object, **__: object) -> str:
        """Name a conversion of numbers, or a wait for those that other threads convert."""
        return "wait for the device" if what and self.fitting.counts and self.fitting.callbacks else ""

    # -- without `fit`

    def _expect(self, model: Any, *_: object, **__: object) -> None:
        """Wait for the first training of a model, unless `fit` trains it."""
        self._turns.expect(id(model))

    def _on_batch(self, original: Any) -> Callable[..., Any]:
        """Wrap `train_on_batch`; a loop that calls it owns the steps from then on."""
        session, breaker = self.session, self.fitting.breaker

        def train_on_batch(model: Any, *args: Any, **kwargs: Any) -> Any:
            begun = done = False
            try:
                if breaker.on and not self.fitting.callbacks:
                    session.claim_steps(OWNER)
                    self._tell(PARTS)  # batches of tf.data are waited for outside of the call
                    session.first_activity()
                    session.local.begin(self._compute)
                    begun = True
            except Exception as error:
                breaker.fault(error)
            try:
                result = original(model, *args, **kwargs)
                done = True
                return result
            except BaseException as error:
                hide(error)
                raise
            finally:
                if begun:
                    self._trained(model, done)

        return train_on_batch

    def _trained(self, model: Any, done: bool) -> None:
        try:
            now = self.session.local.end_of(self._compute)
            if done and self.session.step_owner == OWNER:
                self._save(model)
                if self._turns.ends(id(model)):
                    self.session.boundary(now, manual=True)
        except Exception as error:
            self.fitting.breaker.fault(error)


def _on_host(value: Any) -> Any:
    """Return a variable or an array of JAX as an array of NumPy."""
    return sys.modules["keras.src.backend"].convert_to_numpy(value)
