"""The ranges of `holter.annotate` and `holter.phase`: on one thread, in an asyncio task, with NVTX."""

from __future__ import annotations

import functools
import inspect
import time
from typing import TYPE_CHECKING, Any, TypeVar

from holter.recorder import session as _session
from holter.recorder.guard import tell
from holter.recorder.nvtx import listener
from holter.recorder.spool.names import NAMES
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from holter.recorder.spool.thread_spool import ThreadSpool

Function = TypeVar("Function", bound="Callable[..., Any]")

ANNOTATION = int(Phase.ANNOTATION)
LISTENER = listener()
"""The NVTX listener; None when no tool listens."""


class _Entered(type):
    """The metaclass of `Range`, for callers that look up `__enter__` and `__exit__` on the class.

    `contextlib.ExitStack` does; `with` does not come here.
    """

    @property
    def __enter__(cls) -> Callable[..., Any]:
        return lambda it: it.__enter__()

    @property
    def __exit__(cls) -> Callable[..., Any]:
        return lambda it, *raised: it.__exit__(*raised)


class Range(metaclass=_Entered):
    """A named range: a `with` block or a decorator. It has no state of its own, so one serves all threads.

    `__enter__` and `__exit__` are slots, which `with` reads faster than methods. From its second use on they
    hold functions that write for the thread that used it first; other threads come to `enter` and `leave`.
    """

    __slots__ = ("__enter__", "__exit__", "_thread_spool", "_used", "code", "name")
    __enter__: Any  # functions, which type checkers would take for methods
    __exit__: Any

    def __init__(self, name: str, phase: int = ANNOTATION) -> None:
        self.name = name
        self.code = _code(name, phase)
        self._used = False
        self._leave_alone()

    def enter(self) -> Range:
        """Begin it, on any thread, recorded or not."""
        if _session.current is not None:  # cheaper than a call that does nothing
            if self._thread_spool is None or not self._thread_spool.thread:
                self._settle()
            _session.local_spool.begin(self.code)
        elif self._thread_spool is not None:
            self._leave_alone()
        return self

    def leave(self, kind: object, error: BaseException | None, trace: object) -> None:
        """End it."""
        if _session.current is not None:
            if error is not None:
                _session.current.note_failing(error, self.code)
            _session.local_spool.end_of(self.code)

    def _leave_alone(self) -> None:
        """Belong to no thread."""
        self._thread_spool: ThreadSpool | None = None
        self.__enter__, self.__exit__ = self.enter, self.leave

    def _settle(self) -> None:
        """Belong to the calling thread; but a name that is used once is not worth it."""
        if self._used and _session.current is not None:
            self._thread_spool = _session.current.thread_spool()
            self.__enter__, self.__exit__ = self._thread_spool.ranges(self.code, self)
        self._used = True

    def __call__(self, function: Function) -> Function:
        """Return `function` with every call recorded; coroutines and generators for as long as they live.

        An async generator comes back as it is: wrapping one would lose what is sent into it.
        """
        name, phase = self.name, self.code & 255
        wrapper: Any
        if inspect.isasyncgenfunction(function):
            tell(
                f"annotate({name!r}) cannot record an async generator; use `with` inside {function.__name__}"
            )
            return function
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def wrapper(*args: Any, **kwargs: Any) -> Any:
                with Interleaved(name, phase):
                    return await function(*args, **kwargs)

        elif inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                with Interleaved(name, phase):
                    return (yield from function(*args, **kwargs))

        else:

            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return function(*args, **kwargs)

        return wrapper  # type: ignore[no-any-return]


class Heard(Range):
    """A range that an NVTX tool also gets."""

    __slots__ = ()

    def enter(self) -> Range:
        """Begin it."""
        if LISTENER is not None:
            LISTENER.push(self.name)
        return super().enter()

    def leave(self, kind: object, error: BaseException | None, trace: object) -> None:
        """End it."""
        super().leave(kind, error, trace)
        if LISTENER is not None:
            LISTENER.pop()

    def _settle(self) -> None:
        """Belong to no thread: the tool gets every use."""


class Interleaved:
    """A range that need not nest, as those of asyncio tasks do not: it remembers its own begin."""

    __slots__ = ("_begin", "_handle", "_phase", "_tell", "name")

    def __init__(self, name: str, phase: int = ANNOTATION, *, heard: bool = False) -> None:
        """`heard` says that an NVTX tool has the range already."""
        self.name, self._phase = name, phase
        self._tell = LISTENER is not None and not heard

    def __enter__(self) -> Interleaved:
        self._handle = LISTENER.start(self.name) if LISTENER is not None and self._tell else None
        self._begin = time.perf_counter_ns()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if LISTENER is not None and self._tell:
            LISTENER.end(self._handle)
        session = _session.current
        if session is not None:
            name, begin = session.name(self.name), self._begin
            if error is not None:
                session.note_failing(error, name << 8 | self._phase)
            session.local.thread_spool.add(self._phase, name, begin, time.perf_counter_ns() - begin)

    def __call__(self, function: Function) -> Function:
        """Return `function` with every call recorded."""
        return Range(self.name, self._phase)(function)


def _code(name: str, phase: int) -> int:
    """Return the code of a name and a phase, which is the same in every session of this process."""
    session = _session.current
    number = NAMES.id(name)[0] if session is None else session.name(name)
    return number << 8 | phase
