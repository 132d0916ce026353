"""Finds the thread or the process that fills the queue that the training thread waits for."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from holter.recorder.sampling.frames import is_library
from holter.recorder.sampling.other_threads import reading_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from types import CodeType, FrameType

_QUEUES = (f"{os.sep}queue.py", os.path.join("multiprocessing", "queues.py"))
_WAITING = (
    *_QUEUES,
    f"{os.sep}threading.py",
    os.path.join("multiprocessing", "connection.py"),
    os.path.join("concurrent", "futures", "_base.py"),
    os.path.join("concurrent", "futures", "thread.py"),
)
_WAITING_CALLS = (".get", ".acquire", ".join", ".result", ".wait")


class Seen(NamedTuple):
    """A frame at one moment: the thread goes on whenever the sampler gives up the interpreter lock."""

    f_code: CodeType
    f_lasti: int
    f_lineno: int | None
    f_globals: dict[str, Any]

    @classmethod
    def of(cls, frame: FrameType) -> Seen:
        """Copy what samples need of a frame."""
        return cls(frame.f_code, frame.f_lasti, frame.f_lineno, frame.f_globals)


class Producer(NamedTuple):
    """A thread that works while the training thread waits."""

    name: str
    """`thread loader`, or `process Process-1`."""
    frames: list[Seen]
    """Its outermost and its innermost frame in the user's code; empty for a process."""
    only: bool
    """No other thread or process can be the one that the training waits for."""


def is_queue(code: CodeType) -> bool:
    """Return whether code belongs to Python's queues."""
    return code.co_filename.endswith(_QUEUES) and is_library(code)


def waits(frame: Seen, called: str) -> bool:
    """Return whether the innermost frame of a thread waits for another thread or process."""
    code = frame.f_code
    return (code.co_filename.endswith(_WAITING) and is_library(code)) or called.endswith(_WAITING_CALLS)


def producer(
    without: Collection[int],
    called: Callable[[Seen], str],
    chosen: Callable[[list[Producer]], Producer],
) -> Producer | None:
    """Return a thread that runs code of the user and does not wait; else a child process, if there is one.

    Args:
        without: Threads that are no producers.
        called: Returns the name of the call that runs in a frame.
        chosen: Chooses one of several threads.
    """
    # `threading.enumerate` would take a lock that the training may need.
    threads = getattr(threading, "_active", {})
    with reading_frames:
        stacks = sys._current_frames()
        inner = {ident: Seen.of(frame) for ident, frame in stacks.items() if ident not in without}
        own = {ident: frames for ident in inner if (frames := of_user(stacks[ident]))}
        stacks.clear()  # frames hold the training's tensors
    found = [
        Producer(f"thread {getattr(threads.get(ident), 'name', ident)}", frames, len(own) == 1)
        for ident, frames in own.items()
        if not waits(inner[ident], called(inner[ident]))
    ]
    if found:
        return chosen(found)
    processes = getattr(sys.modules.get("multiprocessing.process"), "_children", ())
    names = sorted(str(each.name) for each in tuple(processes))
    return Producer(f"process {names[0]}", [], len(names) == 1) if names and not own else None


def of_user(frame: FrameType | None) -> list[Seen]:
    """Return the outermost and the innermost frame of a thread in the user's code."""
    found = []
    while frame is not None:
        if not is_library(frame.f_code):
            found.append(Seen.of(frame))
        frame = frame.f_back
    return [*found[-1:], *found[:-1][:1]]
