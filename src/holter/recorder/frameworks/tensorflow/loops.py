"""Records loops of the script: calls of `tf.function`, tapes and optimizers, and batches from tf.data.

A function trains if a gradient was computed while it was traced. Each of its calls is a step; a loop without
such a function has a step for each update by an optimizer of Keras, or for each gradient if it has no such
optimizer. Where several train in turn, the last of them ends the step.
"""

from __future__ import annotations

import sys
import weakref
from threading import get_ident
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks._turns import Turns
from holter.recorder.patches import hide, passed_over
from holter.recorder.sampling.loop_samples import LoopSampler
from holter.recorder.spool.thread_spool import NAN
from holter.recorder.steps import TRAINERS
from holter.schema.phases import ITERATOR_START, NEXT_BATCH, Mode, Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.frameworks.tensorflow.pipelines import Pipelines
    from holter.recorder.session import Session

GRAPH_PARTS = ("data_loading", "compute", "checkpoint", "eval")
"""The parts that are seen of a step in one compiled function."""
EAGER_PARTS = ("data_loading", "compute", "backward", "optimizer", "checkpoint", "eval")
"""The parts that are seen of a step with a tape: what it records is forward and loss in one."""
_EVAL = int(Mode.EVAL)
_LEARNS = 1024
"""Steps between two looks at the code that ends a step."""


class _Function:
    """What is known of a `tf.function`."""

    __slots__ = ("code", "evaluates", "ref", "trains")

    def __init__(self, ref: weakref.ref[Any], code: int) -> None:
        self.ref, self.code = ref, code
        self.trains = False
        self.evaluates: bool | None = None
        """Whether it reads trainable variables; None before its first trace has ended."""


class Loops:
    """Counts the steps of the thread that trains first, unless a trainer or the script counts them."""

    def __init__(self, session: Session, pipelines: Pipelines, patches: Any, version: str) -> None:
        self.session, self.pipelines, self.patches = session, pipelines, patches
        self.breaker = session.breaker("tensorflow")
        self.turns = Turns()
        self.optimizers = 0
        """Optimizers of Keras that exist or have existed."""
        self.tape = 0
        """Tapes that are open on the training thread."""
        self._version = version
        self._parts: tuple[str, ...] = ()
        self._functions: dict[int, _Function] = {}
        self._outer: _Function | None = None
        """The function of the script that runs."""
        self._thread = self._fetched = self._began = 0
        """The thread that trains, when it last began to fetch a batch, and when to call a function."""
        self._fresh = False
        """Whether a batch was fetched since the last call of a function with variables."""
        self._next = session.name(NEXT_BATCH) << 8 | int(Phase.DATA_LOADING)
        self._start = session.name(ITERATOR_START) << 8 | int(Phase.DATA_LOADING)
        self._forward = session.name("forward and loss") << 8 | int(Phase.COMPUTE)
        self._backward = session.name("GradientTape.gradient") << 8 | int(Phase.BACKWARD)
        self._update = 0
        self._sampler = LoopSampler(session, self._sampled, sys.modules["tensorflow"].__path__[0])
        self._eager: Callable[[], bool] = sys.modules["tensorflow"].executing_eagerly

    def attach(self) -> None:
        """Hook functions, tapes, and the iterators of tf.data."""
        functions = sys.modules["tensorflow.python.eager.polymorphic_function.polymorphic_function"].Function
        tape = sys.modules["tensorflow.python.eager.backprop"].GradientTape
        iterator = sys.modules["tensorflow.python.data.ops.iterator_ops"].OwnedIterator
        self.patches.wrap(iterator, "__init__", self._making)
        self.patches.wrap(iterator, "_next_internal", self._fetching)
        self.patches.wrap(functions, "__call__", self._calling)
        self.patches.wrap(tape, "gradient", self._differentiating)
        self.patches.wrap(tape, "__enter__", self._entering)
        self.patches.wrap(tape, "__exit__", self._leaving)
        self.patches.later(self._sampler.stop)

    @property
    def open(self) -> bool:
        """Whether the calling thread may run a step of the script's own loop now."""
        if self._outer is not None or self.session.step_owner in TRAINERS or not self.breaker.on:
            return False
        return self._thread in (0, get_ident()) and self._eager()

    def _sampled(self) -> int:
        """Return the thread whose code outside of the hooks is sampled; 0 while others train."""
        return 0 if self.session.step_owner else self._thread

    # -- data

    def _making(self, original: Any) -> Callable[..., Any]:
        """Wrap the making of an iterator; graphs make iterators without a dataset."""
        session = self.session

        def __init__(iterator: Any, dataset: Any = None, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            begun = False
            try:
                if dataset is not None and self.breaker.on and self._outer is None and self._eager():
                    self._fetched = session.local.begin(self._start)
                    begun = True
            except Exception as error:
                self.breaker.fault(error)
            try:
                original(iterator, dataset, *args, **kwargs)
            except BaseException as error:
                hide(error)
                raise
            finally:
                if begun:
                    try:
                        session.local.end_of(self._start, self.pipelines.made(iterator, dataset))
                    except Exception as error:
                        self.breaker.fault(error)

        return passed_over(__init__)

    def _fetching(self, original: Any) -> Callable[..., Any]:
        """Wrap the request for an element; in a graph it is traced here, and no element comes."""
        session = self.session

        def _next_internal(iterator: Any) -> Any:
            code = 0
            try:
                if self.breaker.on and self._outer is None and self._eager():
                    code = self._next
                    if not getattr(iterator, "_holter_began", False):
                        iterator._holter_began, code = True, self._start
                    self._fetched = session.local.begin(code)
                    self._fresh = True
            except Exception as error:
                self.breaker.fault(error)
            try:
                return original(iterator)
            except BaseException as error:
                hide(error)
                raise
            finally:
                if code:
                    try:
                        session.local.end_of(code, self.pipelines.taken(iterator))
                    except Exception as error:
                        self.breaker.fault(error)

        return passed_over(_next_internal)

    # -- compiled functions

    def _calling(self, original: Any) -> Callable[..., Any]:
        session = self.session

        def __call__(function: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            called, done = None, False
            try:
                if self.open:
                    called = self._functions.get(id(function)) or self._learn(function)
                    self._outer = called
                    self._began = session.local.begin(called.code)
            except Exception as error:
                self.breaker.fault(error)
            try:
                result = original(function, *args, **kwargs)
                done = True
                return result
            except BaseException as error:
                if called is not None:
                    session.note_failing(error, called.code)
                hide(error)
                raise
            finally:
                if called is not None:
                    self._called(function, called, done)

        return passed_over(__call__)

    def _learn(self, function: Any) -> _Function:
        key, known = id(function), self._functions
        name = getattr(function, "name", None) or getattr(function, "_name", "?")
        code = self.session.name(f"tf.function {name}") << 8 | int(Phase.COMPUTE)
        made = known[key] = _Function(weakref.ref(function, lambda _: known.pop(key, None)), code)
        return made

    def _called(self, function: Any, called: _Function, done: bool) -> None:
        self._outer = None
        try:
            mode = None
            if called.evaluates is None:
                called.evaluates = not called.trains and _reads_model(function)
            if called.evaluates and self._fresh:
                mode = _EVAL
            now = self.session.local.end_of(called.code, NAN, mode)
            if called.trains or called.evaluates:
                self._fresh = False
            if called.trains and done:
                self._begin_step(self._began)
                self._trained(id(function), GRAPH_PARTS, now)
        except Exception as error:
            self.breaker.fault(error)

    # -- tapes

    def _differentiating(self, original: Any) -> Callable[..., Any]:
        session = self.session

        def gradient(tape: Any, *args: Any, **kwargs: Any) -> Any:
            begun = False
            try:
                if self._outer is not None:
                    if not self._eager():
                        self._outer.trains = True
                elif self.open and not self.tape:
                    session.local.begin(self._backward)
                    begun = True
            except Exception as error:
                self.breaker.fault(error)
            try:
                return original(tape, *args, **kwargs)
            except BaseException as error:
                hide(error)
                raise
            finally:
                if begun:
                    self._differentiated()

        return passed_over(gradient)

    def _differentiated(self) -> None:
        try:
            now = self.session.local.end_of(self._backward)
            if not self.optimizers:  # the script updates its variables itself
                self._trained(1, EAGER_PARTS, now)
        except Exception as error:
            self.breaker.fault(error)

    def _entering(self, original: Any) -> Callable[..., Any]:
        def __enter__(tape: Any) -> Any:  # noqa: N807
            try:
                if self.open:
                    self.tape += 1
                    tape._holter_open = True
                    if self.tape == 1:
                        self._begin_step(self.session.local.begin(self._forward))
            except Exception as error:
                self.breaker.fault(error)
            return original(tape)

        return passed_over(__enter__)

    def _leaving(self, original: Any) -> Callable[..., Any]:
        def __exit__(tape: Any, *error: Any) -> Any:  # noqa: N807
            try:
                if vars(tape).pop("_holter_open", False):
                    self.tape -= 1
                    if not self.tape:
                        self.session.local.end_of(self._forward)
            except Exception as fault:
                self.breaker.fault(fault)
            return original(tape, *error)

        return passed_over(__exit__)

    # -- optimizers of Keras

    def attach_keras(self, optimizer: type) -> None:
        """Hook the updates of Keras optimizers, which loops of the script call as well."""
        self.patches.after(optimizer, "__init__", self._made, self.breaker)
        self.patches.wrap(optimizer, "apply", self._updating)

    def _made(self, result: None, optimizer: Any, *_: object, **__: object) -> None:
        self.optimizers += 1

    def _updating(self, original: Any) -> Callable[..., Any]:
        session = self.session

        def apply(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            code, done = 0, False
            try:
                if not self._update and self.open:
                    self._update = code = session.name(type(optimizer).__qualname__) << 8 | int(
                        Phase.OPTIMIZER
                    )
                    session.local.begin(code)
            except Exception as error:
                self.breaker.fault(error)
            try:
                result = original(optimizer, *args, **kwargs)
                done = True
                return result
            except BaseException as error:
                hide(error)
                raise
            finally:
                if code:
                    self._updated(optimizer, code, done)

        return passed_over(apply)

    def _updated(self, optimizer: Any, code: int, done: bool) -> None:
        self._update = 0
        try:
            now = self.session.local.end_of(code)
            if done:
                self._trained(id(optimizer), EAGER_PARTS, now)
        except Exception as error:
            self.breaker.fault(error)

    # -- steps

    def _begin_step(self, began: int) -> None:
        """Begin the first step with the fetch of its batch, or with its first work."""
        if not self.session.since:
            self.session.since = self._fetched or began

    def _trained(self, key: int, parts: tuple[str, ...], now: int) -> None:
        """End a step, if an iteration ends with this training."""
        self._thread = self._thread or get_ident()
        self._fresh = False
        if any(part not in self._parts for part in parts):
            self._parts = tuple(dict.fromkeys((*self._parts, *parts)))
            fact = {"name": "tensorflow", "version": self._version, "device": _device(), "parts": self._parts}
            self.session.journal("framework", fact)
        if self.turns.ends(key):
            self.session.boundary(now)
            if self.session.step % _LEARNS == 1:
                self._sampler.learn()


def _reads_model(function: Any) -> bool:
    """Whether a traced function reads variables that a training would change."""
    traced = function._list_all_concrete_functions() if function.input_signature is None else ()
    return any(one.trainable for each in traced for one in each.variables)


def _device() -> str:
    """Return what TensorFlow computes on; it has begun to do so."""
    return "cuda" if sys.modules["tensorflow"].config.list_logical_devices("GPU") else "cpu"
