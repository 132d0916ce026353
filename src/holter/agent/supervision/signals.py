"""Receives the signals of this process as messages with their sender."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import struct
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

PASSED_ON = (
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTSTP,
    signal.SIGCONT,
)
_FROM_KERNEL = 0x80
"""`si_code` of a signal from the terminal, which the whole foreground group gets."""
_INFO = struct.Struct("=Iii")
_INFO_SIZE = 128
_PR_SET_CHILD_SUBREAPER = 36


class Message(NamedTuple):
    """One signal that came."""

    number: int
    from_terminal: bool
    """The command got it too, from the terminal."""


class Signals:
    """Context in which signals do not interrupt but wait to be read."""

    def __init__(self, wanted: Iterable[signal.Signals] = PASSED_ON) -> None:
        # What is ignored (by nohup, or a shell for a background job) stays so, for the command too.
        self._wanted = [one for one in wanted if signal.getsignal(one) is not signal.SIG_IGN]
        self._descriptor = -1
        self._wake_read, self._wake_write = -1, -1
        self._handlers: dict[int, Any] = {}
        self._strays: list[int] = []
        self.mask: set[int] = set()
        """The mask from before, which what we start shall have."""

    def __enter__(self) -> Signals:
        blocked = {*self._wanted, signal.SIGCHLD}
        self.mask = {int(one) for one in signal.pthread_sigmask(signal.SIG_BLOCK, blocked)}
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._descriptor = _signalfd(int(one) for one in blocked)
        if threading.current_thread() is threading.main_thread():
            # A thread that was there before does not block these: what it gets would end the process.
            for one in self._wanted:
                self._handlers[one] = signal.signal(one, self._stray)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for descriptor in (self._descriptor, self._wake_read, self._wake_write):
            if descriptor >= 0:
                os.close(descriptor)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)

    def _stray(self, number: int, frame: object) -> None:
        self._strays.append(number)
        self.wake()

    def wake(self) -> None:
        """End a `wait` from another thread."""
        with contextlib.suppress(BlockingIOError):  # then it is full of such already
            os.write(self._wake_write, b"w")

    def wait(self, timeout_s: float, *others: int) -> list[Message]:
        """Wait for signals, `wake`, the end of a child or readable `others`; return the signals."""
        ready = select.poll()
        for descriptor in (self._descriptor, self._wake_read, *others):
            if descriptor >= 0:
                ready.register(descriptor, select.POLLIN)
        found = ready.poll(max(0, int(timeout_s * 1000)))
        messages = []
        if any(descriptor == self._wake_read for descriptor, _ in found):
            os.read(self._wake_read, 4096)
        while self._strays:
            messages.append(Message(self._strays.pop(0), from_terminal=_in_foreground()))
        if any(descriptor == self._descriptor for descriptor, _ in found):
            try:
                data = os.read(self._descriptor, _INFO_SIZE * 32)
            except BlockingIOError:  # a thread that does not block it was given the signal meanwhile
                data = b""
            for at in range(0, len(data) - _INFO_SIZE + 1, _INFO_SIZE):
                number, _, code = _INFO.unpack_from(data, at)
                if number != signal.SIGCHLD:
                    # A terminal that hangs up signals the leader of its session only, not the command.
                    group = code == _FROM_KERNEL and number != signal.SIGHUP
                    messages.append(Message(number, from_terminal=group))
        return messages


def adopt_orphans(on: bool) -> None:
    """Adopt processes whose parent ends, so that no process of the job is lost; or stop that."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0)


def _signalfd(numbers: Iterable[int]) -> int:
    """Open a descriptor that gives these signals."""
    chosen = (ctypes.c_uint64 * 16)(sum(1 << number - 1 for number in numbers))  # all are below 65
    return int(ctypes.CDLL(None).signalfd(-1, chosen, os.O_NONBLOCK | os.O_CLOEXEC))


def _in_foreground() -> bool:
    """Whether the terminal sends its signals to our process group."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
