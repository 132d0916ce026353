"""Gives each thread a spool, and reuses the spools of threads that have ended."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING

from holter.recorder.spool.thread_spool import SpoolSession, ThreadSpool

if TYPE_CHECKING:
    from holter.recorder.spool.hotpath import SpanWriter


class ThreadSpools:
    """The spools of all threads of a process, and their writers. `local` holds the calling thread's."""

    def __init__(self, session: SpoolSession, writers: list[SpanWriter]) -> None:
        self.all: list[ThreadSpool] = []
        self._session = session
        self._writers = writers
        self._idle: list[ThreadSpool] = []
        self._indices = itertools.count(1)
        self.local = LocalSpool(self)

    def lend(self) -> ThreadSpool:
        """Return a spool for the calling thread: one of a thread that ended, or a new one."""
        try:
            thread_spool = self._idle.pop()
        except IndexError:
            thread_spool = ThreadSpool(self._session)
        else:
            thread_spool.adopt()
        if thread_spool not in self.all:
            self.all.append(thread_spool)
            self._writers.append(thread_spool.writer)
        return thread_spool

    def take_back(self, thread_spool: ThreadSpool) -> None:
        """Keep the spool of a thread that ended, so that many short threads share few files."""
        thread_spool.release()
        self._idle.append(thread_spool)

    def index(self) -> int:
        """Return a number for the calling thread that no other has; 0 is the main thread."""
        main = threading.current_thread() is threading.main_thread()
        return 0 if main else next(self._indices)

    def close(self) -> None:
        """Stop all ranges from writing here."""
        for each in self.all:
            each.release()

    def forked(self) -> None:
        """Keep the calling thread only, which is all that lives on in a child; its files are its parent's."""
        mine = self.local.thread_spool
        for each in self.all:
            each.detach()
        mine.adopt()
        self.all, self._writers[:] = [mine], [mine.writer]
        self._idle.clear()
        self._indices = itertools.count(1)


class LocalSpool(threading.local):
    """The calling thread's spool; `begin` and `end_of` are copied here for speed."""

    def __init__(self, threads: ThreadSpools) -> None:
        self.thread_spool = threads.lend()
        self.begin = self.thread_spool.begin
        self.end_of = self.thread_spool.end_of
        self.lease = _Lease(threads, self.thread_spool)


class NullSpool:
    """Takes annotations when nothing is recorded."""

    @staticmethod
    def begin(code: int) -> None:
        """Write nothing."""

    @staticmethod
    def end_of(code: int) -> None:
        """Write nothing."""


class _Lease:
    """Returns a spool when its thread ends, and with it the thread's `LocalSpool`."""

    __slots__ = ("_thread_spool", "_threads")

    def __init__(self, threads: ThreadSpools, thread_spool: ThreadSpool) -> None:
        self._threads = threads
        self._thread_spool = thread_spool

    def __del__(self) -> None:
        self._threads.take_back(self._thread_spool)
