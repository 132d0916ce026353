"""Records loops of the script: calls of `tf.function`, and batches from tf.data; `eager` adds tapes.

A function trains if a gradient was computed while it was traced. Each of its calls is a step; a loop without
such a function has a step for each update by an optimizer of Keras, or for each gradient if it has no such
optimizer. Where several train in turn, the last of them ends the step.
"""

from __future__ import annotations

import sys
import weakref
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks._turns import Turns
from holter.recorder.frameworks._variables import Variables
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

    __slots__ = ("code", "evaluates", "optimizers", "ref", "trains")

    def __init__(self, ref: weakref.ref[Any], code: int) -> None:
        self.ref, self.code = ref, code
        self.trains = False
        self.optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        """Optimizers of Keras that update variables in it."""
        self.evaluates: bool | None = None
        """Whether it reads trainable variables; None before its first trace has ended."""


class Loops:
    """Counts the steps of the thread that trains first, unless a trainer or the script counts them."""

    def __init__(self, session: Session, pipelines: Pipelines, patches: Any, version: str) -> None:
        self.session, self.pipelines, self.patches = session, pipelines, patches
        self.breaker = session.breaker("tensorflow")
        self.turns: dict[tuple[str, ...], Turns] = {GRAPH_PARTS: Turns(), EAGER_PARTS: Turns()}
        """Compiled steps and eager ones: a script may have loops of both kinds, one after the other."""
        self._version = version
        self._parts: tuple[str, ...] = ()
        self._variables = Variables(session, "TensorFlow", ("parameter", "gradient"))
        self._functions: dict[int, _Function] = {}
        self.outer: _Function | None = None
        """The function of the script that runs."""
        self._thread = self._fetched = self._began = 0
        """The thread that trains, when it last began to fetch a batch, and when to call a function."""
        self._distributes = False
        """Whether a batch for several devices is being fetched."""
        self.fresh = False
        """Whether a batch was fetched since the last call of a function with variables."""
        self._next = session.name(NEXT_BATCH) << 8 | int(Phase.DATA_LOADING)
        self._start = session.name(ITERATOR_START) << 8 | int(Phase.DATA_LOADING)
        self._sampler = LoopSampler(session, self._sampled, sys.modules["tensorflow"].__path__[0])
        self.is_eager: Callable[[], bool] = sys.modules["tensorflow"].executing_eagerly

    def attach(self) -> None:
        """Hook functions, and the iterators of tf.data."""
        functions = sys.modules["tensorflow.python.eager.polymorphic_function.polymorphic_function"].Function
        iterator = sys.modules["tensorflow.python.data.ops.iterator_ops"].OwnedIterator
        self.patches.wrap(iterator, "__init__", self._making)
        self.patches.wrap(iterator, "_next_internal", self._fetching)
        self.patches.wrap(functions, "__call__", self._calling)
        inputs = sys.modules.get("tensorflow.python.distribute.input_lib")
        for kind, method, code in (
            ("DistributedIteratorBase", "get_next", self._next),
            ("DistributedDataset", "__iter__", self._start),
            ("DistributedDatasetsFromFunction", "__iter__", self._start),
        ):
            wrap = partial(self._distributing, code=code)
            self.patches.wrap(getattr(inputs, kind, None), method, wrap)
        self.patches.later(self._sampler.stop)

    @property
    def open(self) -> bool:
        """Whether the calling thread may run a step of the script's own loop now."""
        if self.outer is not None or self.session.step_owner in TRAINERS or not self.breaker.on:
            return False
        return self._thread in (0, get_ident()) and self.is_eager()

    def _takes(self) -> bool:
        """Whether what happens to an iterator now is the script's own request for data."""
        return self.outer is None and not self._distributes and self.is_eager()

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
                if dataset is not None and self.breaker.on and self._takes():
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

    def _distributing(self, original: Any, code: int) -> Callable[..., Any]:
        """Wrap what makes or asks an iterator of `tf.distribute`: it has one iterator for each device."""
        session = self.session

        def distribute(iterator: Any, *args: Any, **kwargs: Any) -> Any:
            begun = False
            try:
                if self.breaker.on and self._takes():
                    self._fetched = session.local.begin(code)
                    begun = self._distributes = True
            except Exception as error:
                self.breaker.fault(error)
            try:
                found = original(iterator, *args, **kwargs)
                self.fresh = self.fresh or (begun and code == self._next)
                return found
            except BaseException as error:
                hide(error)
                raise
            finally:
                if begun:
                    self._distributes = False
                    session.local.end_of(code)

        return passed_over(distribute)

    def _fetching(self, original: Any) -> Callable[..., Any]:
        """Wrap the request for an element; in a graph it is traced here, and no element comes."""
        session = self.session

        def _next_internal(iterator: Any) -> Any:
            code = 0
            try:
                if self.breaker.on and self._takes():
                    code = self._next
                    if not getattr(iterator, "_holter_began", False):
                        iterator._holter_began, code = True, self._start
                    self._fetched = session.local.begin(code)
            except Exception as error:
                self.breaker.fault(error)
            try:
                element = original(iterator)
                self.fresh = self.fresh or bool(code)  # at its end an iterator gives no batch
                return element
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
                    self.outer = called
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
        self.outer = None
        try:
            mode = None
            if called.evaluates is None:
                called.evaluates = not called.trains and _reads_model(function)
            if called.evaluates and self.fresh:
                mode = _EVAL
            now = self.session.local.end_of(called.code, NAN, mode)
            if called.trains or called.evaluates:
                self.fresh = False
            if called.trains and done:
                self.begin_step(self._began)
                for optimizer in called.optimizers:
                    self.save(optimizer)
                self.trained(id(function), GRAPH_PARTS, now)
        except Exception as error:
            self.breaker.fault(error)

    # -- steps

    def begin_step(self, began: int) -> None:
        """Begin the first step with the fetch of its batch, or with its first work."""
        if not self.session.since:
            self.session.since = self._fetched or began

    def save(self, optimizer: Any, gradients: Any = None) -> None:
        """Save the variables of an optimizer, and eager gradients in the same order, if they are due."""
        if self._variables.due:
            variables = optimizer._trainable_variables
            self._variables.save(("parameter", one.path, one.numpy) for one in variables)
            if isinstance(gradients, (list, tuple)) and len(gradients) == len(variables):
                self._variables.save(
                    ("gradient", one.path, gradient.numpy)
                    for one, gradient in zip(variables, gradients, strict=True)
                    if hasattr(gradient, "numpy")
                )

    def trained(self, key: int, parts: tuple[str, ...], now: int) -> None:
        """End a step, if an iteration ends with this training."""
        self._thread = self._thread or get_ident()
        self.fresh = False
        if any(part not in self._parts for part in parts):
            self._parts = tuple(dict.fromkeys((*self._parts, *parts)))
            fact = {"name": "tensorflow", "version": self._version, "device": _device(), "parts": self._parts}
            self.session.journal("framework", fact)
        if self.turns[parts].ends(key):
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
