"""Records eager loops of the script: the block of a tape, gradients, updates, and calls of models."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.tensorflow.loops import EAGER_PARTS
from holter.recorder.patches import hide, passed_over
from holter.recorder.spool.thread_spool import NAN
from holter.schema.phases import Mode, Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.frameworks.tensorflow.loops import Loops

_EVAL = int(Mode.EVAL)


class Eager:
    """Times what runs outside of functions, and marks the functions in which gradients are computed."""

    def __init__(self, loops: Loops) -> None:
        self.loops = loops
        self.tape = 0
        """Tapes that are open on the training thread."""
        self.optimizers = 0
        """Optimizers of Keras that exist or have existed."""
        self._update = 0
        """Code of the update that runs."""
        name = loops.session.name
        self._pass = name("forward") << 8 | int(Phase.COMPUTE)
        self._forward = name("forward and loss") << 8 | int(Phase.COMPUTE)
        self._backward = name("GradientTape.gradient") << 8 | int(Phase.BACKWARD)

    def attach(self) -> None:
        """Hook tapes."""
        tape, patches = sys.modules["tensorflow.python.eager.backprop"].GradientTape, self.loops.patches
        patches.wrap(tape, "gradient", self._differentiating)
        patches.wrap(tape, "__enter__", self._entering)
        patches.wrap(tape, "__exit__", self._leaving)

    # -- tapes

    def _differentiating(self, original: Any) -> Callable[..., Any]:
        session = self.loops.session

        def gradient(tape: Any, *args: Any, **kwargs: Any) -> Any:
            begun = False
            try:
                if self.loops.outer is not None:
                    if not self.loops.is_eager():
                        self.loops.outer.trains = True
                elif self.loops.open and not self._within_another(tape):
                    session.local.begin(self._backward)
                    begun = True
            except Exception as error:
                self.loops.breaker.fault(error)
            try:
                return original(tape, *args, **kwargs)
            except BaseException as error:
                hide(error)
                raise
            finally:
                if begun:
                    self._differentiated()

        return passed_over(gradient)

    def _within_another(self, tape: Any) -> bool:
        """Return whether another tape is open: gradients of gradients are part of its forward pass."""
        return self.tape > ("_holter_open" in vars(tape))

    def _differentiated(self) -> None:
        try:
            now = self.loops.session.local.end_of(self._backward)
            if not self.optimizers:  # the script updates its variables itself
                self.loops.trained(1, EAGER_PARTS, now)
        except Exception as error:
            self.loops.breaker.fault(error)

    def _entering(self, original: Any) -> Callable[..., Any]:
        def __enter__(tape: Any) -> Any:  # noqa: N807
            try:
                if self.loops.open:
                    self.tape += 1
                    tape._holter_open = True
                    if self.tape == 1:
                        self.loops.begin_step(self.loops.session.local.begin(self._forward))
            except Exception as error:
                self.loops.breaker.fault(error)
            return original(tape)

        return passed_over(__enter__)

    def _leaving(self, original: Any) -> Callable[..., Any]:
        def __exit__(tape: Any, *error: Any) -> Any:  # noqa: N807
            try:
                if vars(tape).pop("_holter_open", False):
                    self.tape -= 1
                    if not self.tape:
                        self.loops.session.local.end_of(self._forward)
            except Exception as fault:
                self.loops.breaker.fault(fault)
            return original(tape, *error)

        return passed_over(__exit__)

    # -- optimizers of Keras

    def attach_model(self, model: type) -> None:
        """Hook calls of Keras models: outside of functions and tapes they evaluate, where batches come."""
        self.loops.patches.wrap(model, "__call__", self._evaluating)

    def _evaluating(self, original: Any) -> Callable[..., Any]:
        def __call__(model: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            begun = False
            try:
                if self.loops.fresh and not self.tape and self.loops.open:
                    self.loops.fresh, begun = False, True
                    self.loops.session.local.begin(self._pass)
            except Exception as error:
                self.loops.breaker.fault(error)
            try:
                return original(model, *args, **kwargs)
            except BaseException as error:
                hide(error)
                raise
            finally:
                if begun:
                    self.loops.session.local.end_of(self._pass, NAN, _EVAL)

        return passed_over(__call__)

    def attach_optimizer(self, optimizer: type) -> None:
        """Hook the updates of Keras optimizers, which loops of the script call as well."""
        self.loops.patches.after(optimizer, "__init__", self._made, self.loops.breaker)
        self.loops.patches.wrap(optimizer, "apply", self._updating)

    def _made(self, result: None, optimizer: Any, *_: object, **__: object) -> None:
        self.optimizers += 1

    def _updating(self, original: Any) -> Callable[..., Any]:
        session = self.loops.session

        def apply(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            code, done = 0, False
            try:
                outer = self.loops.outer
                if outer is not None and not self.loops.is_eager():
                    outer.optimizers.add(optimizer)
                if not self._update and self.loops.open:
                    self._update = code = session.name(type(optimizer).__qualname__) << 8 | int(
                        Phase.OPTIMIZER
                    )
                    session.local.begin(code)
            except Exception as error:
                self.loops.breaker.fault(error)
            try:
                result = original(optimizer, *args, **kwargs)
                done = True
                return result
            except BaseException as error:
                hide(error)
                raise
            finally:
                if code:
                    self._updated(optimizer, code, args[0] if done and args else kwargs.get("grads"), done)

        return passed_over(apply)

    def _updated(self, optimizer: Any, code: int, gradients: Any, done: bool) -> None:
        self._update = 0
        try:
            now = self.loops.session.local.end_of(code)
            if done:
                self.loops.save(optimizer, gradients)
                self.loops.trained(id(optimizer), EAGER_PARTS, now)
        except Exception as error:
            self.loops.breaker.fault(error)
