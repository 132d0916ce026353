"""Lets a thread read the frames of other threads without harm.

Python 3.11 makes the object of a frame when it is asked for, and allocating it may collect garbage. What is
collected may run Python code, so that another thread goes on, and its frame ends. The new object is then
written into memory that belongs to another frame by now. Python 3.12 and later collect between two
instructions only; in Python 3.10 each frame is an object from the beginning.
"""

from __future__ import annotations

import _thread
import gc
import os
import sys


class _NoCollection:
    """Switches the automatic collection off within a `with` block of one thread at a time."""

    def __init__(self) -> None:
        self._lock = _thread.allocate_lock()
        self._switched = False
        """Whether the collection was on before."""
        os.register_at_fork(after_in_child=self._forked)

    def __enter__(self) -> None:
        self._lock.acquire()
        self._switched = gc.isenabled()
        if self._switched:
            gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._switched:
            self._switched = False
            gc.enable()
        self._lock.release()

    def _forked(self) -> None:
        """Do in a forked child what the thread would have done that does not exist there."""
        self._lock = _thread.allocate_lock()
        if self._switched:
            self._switched = False
            gc.enable()


class _Nothing:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


reading_frames = _NoCollection() if sys.version_info[:2] == (3, 11) else _Nothing()
"""The block in which frames of other threads are asked for, and their callers."""


def exists(thread: int) -> bool:
    """Return whether a thread with Python frames has this identity."""
    with reading_frames:
        return thread in sys._current_frames()
