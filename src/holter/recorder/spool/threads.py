"""Give each thread its own marks, and those of a thread that has ended to the next one."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING

from holter.recorder.spool.marks import Marks, Recording

if TYPE_CHECKING:
    from holter.recorder.spool.hotpath import Pen


class Threads:
    """The marks of every thread of a process, and their pens. `local` is the calling thread's own place."""

    def __init__(self, session: Recording, pens: list[Pen]) -> None:
        self.all: list[Marks] = []
        self._session = session
        self._pens = pens
        self._idle: list[Marks] = []
        self._indices = itertools.count(1)
        self.local = Local(self)

    def lend(self) -> Marks:
        """Return marks for the calling thread: those of a thread that ended, or new ones."""
        try:
            marks = self._idle.pop()
        except IndexError:
            marks = Marks(self._session)
        else:
            marks.adopt()
        if marks not in self.all:
            self.all.append(marks)
            self._pens.append(marks.pen)
        return marks

    def take_back(self, marks: Marks) -> None:
        """Keep the marks of a thread that ended: many short threads then share few files."""
        marks.release()
        self._idle.append(marks)

    def index(self) -> int:
        """Return a number for the calling thread that no other has; 0 is the main thread."""
        main = threading.current_thread() is threading.main_thread()
        return 0 if main else next(self._indices)

    def close(self) -> None:
        """Let no range write here any more."""
        for each in self.all:
            each.release()

    def forked(self) -> None:
        """Keep the calling thread only, which is all that lives on in a child; its files are its parent's."""
        mine = self.local.marks
        for each in self.all:
            each.detach()
        mine.adopt()
        self.all, self._pens[:] = [mine], [mine.pen]
        self._idle.clear()
        self._indices = itertools.count(1)


class Local(threading.local):
    """What one thread writes to: `begin(code)`, `end_of(code)`, and all else by `marks`."""

    def __init__(self, threads: Threads) -> None:
        self.marks = threads.lend()
        self.begin = self.marks.begin
        self.end_of = self.marks.end_of
        self.lease = _Lease(threads, self.marks)


class Nowhere:
    """What annotations write to when nothing is recorded."""

    @staticmethod
    def begin(code: int) -> None:
        """Write nothing."""

    @staticmethod
    def end_of(code: int) -> None:
        """Write nothing."""


class _Lease:
    """Gives marks back when its thread ends, and with it the thread's `Local`."""

    __slots__ = ("_marks", "_threads")

    def __init__(self, threads: Threads, marks: Marks) -> None:
        self._threads = threads
        self._marks = marks

    def __del__(self) -> None:
        self._threads.take_back(self._marks)
