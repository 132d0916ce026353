"""Notes how a process fails: uncaught exceptions with their phase, and stack dumps on demand."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
import threading
import time
import traceback  # now, not when a process fails: importing it then undoes that Ctrl-C ends it with SIGINT
from typing import TYPE_CHECKING, Any, Protocol

from holter.recorder.guard import tell
from holter.recorder.patches import PASSED_OVER
from holter.recorder.spool.files import open_apart
from holter.recorder.spool.thread_spool import PHASES, ThreadSpool
from holter.recorder.unsupported import not_recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from holter.recorder.identity import Identity

MAX_MESSAGE = 4_000
MAX_TRACEBACK = 32_000
_OOM = ("out of memory", "can't allocate memory", "cannot allocate memory", "alloc_failed")


class _FailingSession(Protocol):
    """The session whose failure is noted; see `Session`."""

    identity: Identity
    step: int
    failing: tuple[int, int, int] | None
    noted: int | None

    def open(self) -> None: ...
    def journal(self, kind: str, fact: object) -> None: ...
    def fault(self, where: str, error: BaseException) -> None: ...
    def thread_spool(self) -> ThreadSpool: ...
    def end(self) -> None: ...


_recording: _FailingSession | None = None
"""The session that records this process."""


def install(session: _FailingSession) -> Callable[[], None]:
    """Chain to the hooks for uncaught exceptions; return a function that removes ours."""
    global _recording
    _recording = session
    before, before_thread = sys.excepthook, threading.excepthook

    def excepthook(kind: Any, error: BaseException, trace: Any) -> None:
        if trace is error.__traceback__:
            clear(error)
            trace = error.__traceback__
        note(session, error)
        before(kind, error, trace)

    def thread_excepthook(args: Any) -> None:
        if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
            note(session, args.exc_value, thread=getattr(args.thread, "name", None))
        before_thread(args)

    def uninstall() -> None:
        global _recording
        if _recording is session:
            _recording = None
        # Remove ours only if no other hook is chained to it; otherwise it stays and notes nothing.
        if sys.excepthook is excepthook:
            sys.excepthook = before
        if threading.excepthook is thread_excepthook:
            threading.excepthook = before_thread

    sys.excepthook = excepthook
    threading.excepthook = thread_excepthook
    watch_multiprocessing()
    return uninstall


def clear(error: BaseException) -> None:
    """Remove the frames of the recorder's wrappers from the traceback of an exception and of its causes."""
    for each in _causes(error):
        kept = [
            trace
            for trace in _links(each.__traceback__)
            if not trace.tb_frame.f_code.co_filename.endswith(PASSED_OVER)
        ]
        for trace, following in zip(kept, [*kept[1:], None], strict=True):
            trace.tb_next = following
        each.__traceback__ = kept[0] if kept else None


def _links(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def note(session: _FailingSession, error: BaseException, thread: str | None = None) -> None:
    """Journal an uncaught exception once; never raises."""
    try:
        if _recording is not session or session.noted == id(error):
            return
        session.noted = id(error)
        step, phase = _where(session, error)
        message = _read(lambda: str(error), "reading the message")
        fact = {
            "time": time.perf_counter_ns(),
            "type": _type_name(error),
            "message": message[:MAX_MESSAGE],
            "traceback": _read(lambda: _traceback(error), "formatting the traceback")[-MAX_TRACEBACK:],
            "step": step,
            "phase": phase,
            "oom": isinstance(error, MemoryError)
            or "OutOfMemory" in type(error).__name__
            or any(words in message.lower() for words in _OOM),
            "thread": thread,
        }
        session.open()
        session.journal("exception", fact)
    except Exception as fault:
        session.fault("exception", fault)


def note_last(session: _FailingSession) -> None:
    """Journal the exception that ends the process, if the script replaced our hook without chaining.

    A process that recorded no training also journals the versions of other frameworks that it imported.
    """
    error = getattr(sys, "last_value", None)
    if error is not None and not hasattr(sys, "ps1"):
        note(session, error)
    if not session.identity.recording and session.identity.worker is None and (found := not_recorded()):
        session.open()
        session.journal("imported", found)


class Stacks:
    """Writes all Python stacks to a file on an unused signal, and when the process crashes.

    Raises `OSError` when the file cannot be created.
    """

    def __init__(self, path: str) -> None:
        free = (n for n in range(signal.SIGRTMAX - 7, signal.SIGRTMIN, -1) if _free(n))
        self.signal: int | None = next(free, None)
        """Number of the signal; None when all are in use."""
        # A bare descriptor: nothing closes it while a signal may arrive.
        self._file = open_apart(path)
        if self.signal is not None:
            _ignore(self.signal)
            faulthandler.register(self.signal, file=self._file, all_threads=True, chain=False)
        self._crashes = not faulthandler.is_enabled()
        if self._crashes:  # else the script writes them elsewhere
            faulthandler.enable(file=self._file, all_threads=True)

    def close(self) -> None:
        """Stop writing; a forked child calls it because the file belongs to its parent."""
        if self.signal is not None:
            faulthandler.unregister(self.signal)
        if self._crashes:
            faulthandler.disable()
        with contextlib.suppress(OSError):  # the script may have closed all descriptors
            os.close(self._file)


_ignored: set[int] = set()
"""Unused signals that this process ignores because the recorder uses them for stacks."""


def _free(number: int) -> bool:
    """Return whether the script has no handler for a signal."""
    now = signal.getsignal(number)
    return now == signal.SIG_DFL or (now == signal.SIG_IGN and number in _ignored)


def _ignore(number: int) -> None:
    """Ignore a signal before faulthandler takes it.

    At the end of Python or of the recording, faulthandler restores the earlier action. The default action
    would end the process if a request for stacks arrived at that moment.
    """
    with contextlib.suppress(ValueError):  # only the main thread may set it
        signal.signal(number, signal.SIG_IGN)
        _ignored.add(number)


def _where(session: _FailingSession, error: BaseException) -> tuple[int, str | None]:
    if session.failing is not None:
        for each in _causes(error):
            if id(each) == session.failing[0]:
                return session.failing[2], PHASES.get(session.failing[1])
    still_open = session.thread_spool().open_spans()
    return session.step, PHASES.get(still_open[-1][1] & 255) if still_open else None


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting and len(seen) < 100:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            yield each
            waiting += [each.__context__, each.__cause__]


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


def _read(text: Callable[[], str], what: str) -> str:
    try:
        return text()
    except Exception as failed:
        return f"<{type(failed).__name__} while {what}>"


_watching: set[object] = set()


def watch_multiprocessing() -> None:
    """Note the exception and the end of multiprocessing children, which never reach `sys.excepthook`."""
    util = sys.modules.get("multiprocessing.util")
    process = sys.modules.get("multiprocessing.process")
    if util is None or process is None or util in _watching:
        return
    _watching.add(util)

    def child_ends() -> None:
        session = _recording
        if session is None:
            return
        error = sys.exc_info()[1]  # in flight: finalizers run inside the `finally` around the child's work
        if isinstance(error, SystemExit):
            error = error.__context__ if error.code not in (None, 0) else None
        if error is not None:
            note(session, error)
        session.end()

    def child_begins(_: object) -> None:
        try:
            util.Finalize(None, child_ends, exitpriority=-100)
        except Exception as error:
            tell(f"the end of a child process will not be noted: {error}")

    with contextlib.suppress(Exception):
        util.register_after_fork(child_begins, child_begins)
        if process.parent_process() is not None:  # a child already, and maybe past its beginning
            child_begins(None)
