"""Replaces `jax.jit` and what takes gradients, so that calls of compiled functions can be recorded.

Loaded with JAX, which many scripts import without training, so it imports nothing that takes time. Until the
script takes a gradient, these wrappers call the originals and note what a trace contains.
"""

from __future__ import annotations

import functools
import math
import operator
import sys
import threading
from time import perf_counter_ns
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

from holter.recorder.patches import Patches, hide, passed_over

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


class Observer(Protocol):
    """Records calls."""

    def call(self, program: TracedFunction, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call the function of a program, outermost on its thread."""

    def joined(self, program: TracedFunction, began: int, args: Any, kwargs: Any, result: Any) -> None:
        """Record a call during which the recording has begun."""

    def adopt(self, program: TracedFunction) -> None:
        """Take over a program that was only lowered so far."""

    def updated(self) -> None:
        """Note an update of parameters outside of any program."""


observer: Observer | None = None
"""Records the calls; None until the script takes a gradient."""
_before_first: Callable[[], object] | None = None
"""Called before the first gradient; it may set `observer`."""
_patches = Patches()
_is_clean: Callable[[], bool] = bool
"""Whether this thread traces nothing."""


_contents: WeakKeyDictionary[FunctionType, tuple[int, int]] = WeakKeyDictionary()
"""Function of the script → gradients and updates in its trace."""


class TracedFunction:
    """A function that JAX compiles, and what its traces have shown."""

    __slots__ = (
        "code",
        "evaluates",
        "function",
        "gradients",
        "known",
        "name",
        "options",
        "outputs",
        "updates",
    )

    def __init__(self, function: Any, options: dict[str, Any], name: str = "") -> None:
        self.function, self.options = function, options
        inner = getattr(function, "func", function)  # a `functools.partial`
        self.name: str = name or getattr(inner, "__name__", None) or type(inner).__name__
        self.code = 0
        """Code of its spans; 0 before the first."""
        self.evaluates = False
        """Whether its name says that it evaluates, or its trace calls a Keras model that does not train."""
        self.gradients = self.updates = 0
        """How many gradients in a row, and updates of parameters, one call computes at least."""
        self.outputs: Any = None
        """What reads its scalar outputs."""
        self.known: list[Any] = []
        """The arguments that it was compiled for."""

    @property
    def key(self) -> Any:
        """The same for each function that is made from the same source."""
        function = getattr(self.function, "__wrapped__", self.function)
        return getattr(function, "__code__", self)

    def contains(self, gradients: int, updates: int) -> None:
        """Note what a trace of it contains, as often as the loops around it say."""
        times = math.prod(_local.loops) or 1
        self.gradients = max(self.gradients, gradients * times)
        self.updates = max(self.updates, updates * times)
        if isinstance(self.function, FunctionType):
            _contents[self.function] = self.gradients, self.updates

    def compiled(self) -> None:
        """Take over what a trace of its function contains: JAX traces it once for several `jit` of it."""
        if not (self.gradients or self.updates) and isinstance(self.function, FunctionType):
            self.gradients, self.updates = _contents.get(self.function, (0, 0))


class _Local(threading.local):
    def __init__(self) -> None:
        self.stack: list[TracedFunction] = []
        """The programs that are called, outermost first."""
        self.loops: list[int] = []
        """Lengths of the loops that are being traced."""


_local = _Local()


class Jitted:
    """What `jax.jit` returned, in all respects but that its calls are recorded."""

    def __init__(self, function: Any, program: TracedFunction) -> None:
        functools.update_wrapper(self, function)
        self.__wrapped__ = getattr(function, "__wrapped__", function)
        self._holter_function = function
        self._holter_program = program

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The type that `isinstance` sees."""
        return type(self._holter_function)

    @passed_over
    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        try:
            return run(self._holter_program, self._holter_function, args, kwargs)
        except BaseException as error:
            hide(error)
            raise

    def lower(self, /, *args: Any, **kwargs: Any) -> Any:
        """Lower the function for these arguments."""
        return _handed_on(self._holter_program, self._holter_function.lower, args, kwargs)

    def trace(self, /, *args: Any, **kwargs: Any) -> Any:
        """Trace the function for these arguments."""
        return _handed_on(self._holter_program, self._holter_function.trace, args, kwargs)

    def eval_shape(self, /, *args: Any, **kwargs: Any) -> Any:
        """Return the shapes of its outputs."""
        return _noting(self._holter_program, self._holter_function.eval_shape, args, kwargs)

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else MethodType(self, owner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_holter_function"], name)

    def __repr__(self) -> str:
        return repr(self._holter_function)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._holter_function.__reduce_ex__(protocol)


@passed_over
def run(program: TracedFunction, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call the function of a program. An outermost call is recorded, others are part of its trace."""
    stack = _local.stack
    try:
        if stack:
            if program.updates or program.gradients:  # JAX may know its trace and not run it again
                stack[0].contains(program.gradients, program.updates)
            return function(*args, **kwargs)
        if observer is None or not _is_clean():
            return _noting(program, function, args, kwargs)
        return observer.call(program, function, args, kwargs)
    except BaseException as error:
        hide(error)
        raise


@passed_over
def _noting(program: TracedFunction, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call a function, and note what its trace contains; recording may begin within."""
    stack, records, began = _local.stack, observer is not None, perf_counter_ns()
    stack.append(program)
    try:
        result = function(*args, **kwargs)
    except BaseException as error:
        hide(error)
        raise
    finally:
        stack.pop()
    if not records and observer is not None and not stack and _is_clean():
        observer.joined(program, began, args, kwargs, result)
    return result


def _handed_on(program: TracedFunction, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Trace a program, and let what is made of it belong to it."""
    stack, records = _local.stack, observer is not None
    stack.append(program)
    try:
        result = function(*args, **kwargs)
    finally:
        stack.pop()
    _belongs(result, program)
    if not records and observer is not None:
        observer.adopt(program)
    return result


def _belongs(stage: Any, program: TracedFunction | None) -> None:
    try:
        stage._holter_program = program
    except AttributeError:  # a JAX whose stages have no place for it: calls of these are not recorded
        return


def watch(jax: ModuleType, begin: Callable[[], object], patches: Patches) -> None:
    """Replace functions of JAX, and call `begin` before the first gradient; it may set `observer`.

    Args:
        jax: The module.
        begin: Called once.
        patches: Receives what removes the wrappers if `begin` has not been called by then.
    """
    global _before_first, _is_clean

    def first() -> None:
        global _before_first
        _before_first = None
        begin()

    def unused() -> None:
        if _before_first is first:
            restore()

    _before_first = first
    patches.later(unused)
    _is_clean = getattr(sys.modules.get("jax._src.core"), "trace_state_clean", lambda: True)
    for name in ("jit", "pmap"):
        _patches.wrap(jax, name, _making)
    for name in ("grad", "value_and_grad"):
        _patches.wrap(jax, name, _differentiating)
    _patches.wrap(jax.lax, "scan", lambda original: _looping(original, _scan_length))
    _patches.wrap(jax.lax, "fori_loop", lambda original: _looping(original, _fori_length))
    stages = jax.stages
    for owner, name in ((getattr(stages, "Traced", None), "lower"), (stages.Lowered, "compile")):
        _patches.wrap(owner, name, _handing_on)
    _patches.wrap(stages.Compiled, "__call__", _calling_compiled)


def watch_updates(module: str) -> None:
    """Note the updates of parameters by a library: `apply_updates` of optax or equinox."""
    _patches.wrap(sys.modules[module], "apply_updates", _updating)


def restore() -> None:
    """Remove all wrappers of JAX. What they have returned stays, and calls the originals."""
    global _before_first, observer
    _before_first = observer = None
    _patches.undo()


def _making(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `jax.jit` or `jax.pmap`, also where it is given options only."""

    def jit(*args: Any, **options: Any) -> Any:
        made = original(*args, **options)
        function = args[0] if args else options.get("fun")
        if function is not None:
            return _proxy(made, function, options)

        def decorate(function: Any, *more: Any, **further: Any) -> Any:
            return _proxy(made(function, *more, **further), function, {**options, **further})

        return decorate

    return jit


def _proxy(made: Any, function: Any, options: dict[str, Any]) -> Any:
    return Jitted(made, TracedFunction(function, options)) if callable(made) else made


def _differentiating(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `jax.grad`, so that calls of what it returns are noted."""

    def differentiate(*args: Any, **options: Any) -> Any:
        taking = original(*args, **options)
        function = args[0] if args else options.get("fun")
        program = TracedFunction(function, {}, f"gradient of {getattr(function, '__name__', 'a function')}")

        def gradient(*args: Any, **kwargs: Any) -> Any:
            first, stack = _before_first, _local.stack
            try:
                if first is not None:
                    first()
                if stack:
                    stack[0].contains(1, 0)
                    return taking(*args, **kwargs)
                if not _is_clean():
                    return taking(*args, **kwargs)
                program.gradients = 1
                return run(program, taking, args, kwargs)
            except BaseException as error:
                hide(error)
                raise

        return passed_over(functools.update_wrapper(gradient, taking))

    return differentiate


def _updating(original: Callable[..., Any]) -> Callable[..., Any]:
    def apply_updates(*args: Any, **kwargs: Any) -> Any:
        stack = _local.stack
        if stack:
            stack[0].contains(0, 1)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            hide(error)
            raise
        if not stack and observer is not None and _is_clean():
            observer.updated()
        return result

    return apply_updates


def _looping(original: Callable[..., Any], length: Callable[..., int]) -> Callable[..., Any]:
    """Wrap a loop of JAX, whose body is traced once however often it runs."""
    programs: dict[Any, TracedFunction] = {}

    def loop(*args: Any, **kwargs: Any) -> Any:
        body = next((one for one in (*args, *kwargs.values()) if callable(one)), None)
        try:
            times = length(*args, **kwargs)
        except Exception:  # a number that is known only when it runs
            times = 1
        loops = _local.loops
        loops.append(times)
        try:
            if _local.stack or not _is_clean():
                return original(*args, **kwargs)
            key = getattr(body, "__code__", body)
            program = programs.setdefault(
                key, TracedFunction(body, {}, f"loop {getattr(body, '__name__', '')}")
            )
            return run(program, original, args, kwargs)
        except BaseException as error:
            hide(error)
            raise
        finally:
            loops.pop()

    return loop


def _scan_length(_f: Any, _init: Any, xs: Any = None, length: Any = None, *_: object, **__: object) -> int:
    if length is not None:
        return operator.index(length)
    return int(sys.modules["jax"].tree_util.tree_leaves(xs)[0].shape[0])


def _fori_length(lower: Any, upper: Any, *_: object, **__: object) -> int:
    return operator.index(upper) - operator.index(lower)


def _handing_on(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a stage of compiling ahead of time, whose result belongs to the same program."""

    def stage(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        program = getattr(self, "_holter_program", None)
        if program is not None:
            _belongs(result, program)
        return result

    return stage


def _calling_compiled(original: Callable[..., Any]) -> Callable[..., Any]:
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        program = getattr(self, "_holter_program", None)
        try:
            if program is None:
                return original(self, *args, **kwargs)
            return run(program, functools.partial(original, self), args, kwargs)
        except BaseException as error:
            hide(error)
            raise

    return __call__
