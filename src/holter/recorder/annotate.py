"""Name a stretch of code, a step or a number by hand: what holter's users write in their own loops.

Off (no session), each costs a call and an attribute read. On, an annotation is one span of its thread.
"""

from __future__ import annotations

import functools
import inspect
import sys
import time
from typing import TYPE_CHECKING, Any, TypeVar

from holter.recorder import imports
from holter.recorder import session as _session
from holter.recorder.guard import tell
from holter.recorder.names import NAMES
from holter.recorder.nvtx import listener
from holter.schema.phases import Mode, Phase

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

Function = TypeVar("Function", bound="Callable[..., Any]")

_ANNOTATION = int(Phase.ANNOTATION)
_MODES = {mode.name.lower(): int(mode) for mode in Mode}
_nvtx = listener()
MAX_KEPT = 4096
"""Range objects kept by name; names beyond it (`f"step {i}"`) get a new object each time."""


class Range:
    """A named range: a `with` block or a decorator. It has no state of its own, so one serves all threads."""

    __slots__ = ("code", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.code = _code(name)

    def __enter__(self) -> Range:
        if _session.current is not None:  # cheaper than a call that does nothing
            _session.here.begin(self.code)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if _session.current is not None:
            if error is not None:
                _session.current.note_failing(error, self.code)
            _session.here.end_of(self.code)

    def __call__(self, function: Function) -> Function:
        """Return `function` with every call recorded; coroutines and generators for as long as they live.

        An async generator comes back as it is: wrapping one would lose what is sent into it.
        """
        name = self.name
        wrapper: Any
        if inspect.isasyncgenfunction(function):
            tell(
                f"annotate({name!r}) cannot record an async generator; use `with` inside {function.__name__}"
            )
            return function
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def wrapper(*args: Any, **kwargs: Any) -> Any:
                with Interleaved(name):
                    return await function(*args, **kwargs)

        elif inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                with Interleaved(name):
                    return (yield from function(*args, **kwargs))

        else:

            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return function(*args, **kwargs)

        return wrapper  # type: ignore[no-any-return]


class Heard(Range):
    """A range that a tool hears of, too."""

    __slots__ = ()

    def __enter__(self) -> Range:
        if _nvtx is not None:
            _nvtx.push(self.name)
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if _nvtx is not None:
            _nvtx.pop()


class Interleaved:
    """A range that need not nest, as those of asyncio tasks do not: it remembers its own begin."""

    __slots__ = ("_begin", "_handle", "name")

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> Interleaved:
        self._handle = None if _nvtx is None else _nvtx.start(self.name)
        self._begin = time.perf_counter_ns()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if _nvtx is not None:
            _nvtx.end(self._handle)
        session = _session.current
        if session is not None:
            name, begin = session.name(self.name), self._begin
            if error is not None:
                session.note_failing(error, name << 8 | _ANNOTATION)
            session.local.marks.add(_ANNOTATION, name, begin, time.perf_counter_ns() - begin)

    def __call__(self, function: Function) -> Function:
        """Return `function` with every call recorded."""
        return Range(self.name)(function)


_ranges: dict[str, Range] = {}


_running_loop: Callable[[], object] | None = None
_modules = sys.modules


def annotate(name: str) -> Range | Interleaved:
    """Record a stretch of code under `name`: `with holter.annotate("augment"):` or as a decorator.

    Nests, also across threads, each of which has its own stack. Ranges of
    asyncio tasks may overlap.
    """
    global _running_loop
    if _session.current is None and _nvtx is None:
        pass  # nobody hears of it, so its kind makes no difference
    elif _running_loop is not None:
        if _running_loop() is not None:
            return Interleaved(name)
    elif "_asyncio" in _modules:  # not imported for this: it would bring all of asyncio
        _running_loop = _modules["_asyncio"]._get_running_loop
        return annotate(name)
    try:
        return _ranges[name]
    except (KeyError, TypeError):
        return _new_range(name)


def annotation_begin(name: str) -> None:
    """Begin a stretch of code under `name`; `annotation_end` on the same thread ends the innermost one."""
    if _nvtx is not None:
        _nvtx.begin_named(name)
    if _session.current is not None:
        _session.here.begin((_ranges.get(name) or _new_range(name)).code)


def annotation_end(name: str | None = None) -> None:
    """End the innermost stretch begun on this thread, or the innermost one called `name`."""
    if _nvtx is not None:
        _nvtx.end_named(name)
    session = _session.current
    if session is None:
        return
    if name is not None:
        _session.here.end_of((_ranges.get(name) or _new_range(name)).code)
        return
    for _, code in reversed(session.local.marks.open_spans()):
        if code & 255 == _ANNOTATION:
            session.local.end_of(code)
            return
    session.fault("annotation_end", ValueError("no annotation was begun on this thread"))


def log(*, step: int | None = None, mode: str | None = None, **values: float) -> None:
    """Record numbers by name: `holter.log(loss=0.3, lr=1e-3)`; at the current step unless `step` is given.

    They belong to the mode the loop is in (evaluation, when the model called last is in evaluation mode)
    unless `mode` is given: `train`, `eval`, `predict` or `global`. From any thread. A value is anything
    `float()` takes; a tensor on a device is waited for. What is logged here takes the place of what would be
    recorded under the same name without it, such as `loss` and `lr`.

    Raises:
        ValueError: A mode that is none.
    """
    if mode is not None and mode not in _MODES:
        raise ValueError(f"mode {mode!r} of holter.log is not known; known are {', '.join(_MODES)}")
    session = _session.current
    if session is not None:
        # Two series under one name, such as a loss and its mean over batches, would be neither.
        session.told.update(values)
        offered = session.by_hand
        number = _MODES[mode or "train"] if mode or offered is None else offered.mode()
        for name, value in values.items():
            session.scalar(name, value, step, number)


class step:  # noqa: N801  read as a word: `with holter.step():`
    """One training step of a loop that no adapter knows: it ends with the block.

    It begins where the step before ended, so that loading the batch outside the block belongs to it. From
    the first such block on, an adapter's own step boundaries do not count.
    """

    __slots__ = ("_mode",)

    def __init__(self, mode: str = "train") -> None:
        if mode not in _MODES:
            raise ValueError(f"mode {mode!r} of holter.step is not known; known are {', '.join(_MODES)}")
        self._mode = _MODES[mode]

    def __enter__(self) -> step:
        session = _session.current
        if session is not None:
            session.manual_steps = True
            session.first_activity()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session = _session.current
        if session is not None and error is None:
            session.boundary(None, self._mode, manual=True)


def _new_range(name: str) -> Range:
    kind = Range if _nvtx is None else Heard
    new = kind(name if isinstance(name, str) else str(name))
    if len(_ranges) < MAX_KEPT:
        _ranges[name] = new
    return new


def _code(name: str) -> int:
    """Return the code of a name, which is the same in every session of this process."""
    session = _session.current
    number = NAMES.id(name)[0] if session is None else session.name(name)
    return number << 8 | _ANNOTATION


if _session.activate() is not None:
    imports.install()  # where the bootstrap did not run, as under `python -E`
