"""Profilers that a window switches on, one file each: the contract.

A profiler is a class called `Profiler` in a module of this folder that is named as in
`holter.schema.windows.PROFILERS`. The module is imported when its first window begins, so outside
windows nothing of it exists. Whatever it raises costs its window, never the training; `Unavailable`
says in its text why there cannot be one here.

What it found it writes into a file of the spool directory, as raw as is cheap; `holter.agent.drain.windows`
has a module of the same name that makes rows of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, Union

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.profiling_window import ProfilingWindow, WindowSession


Found = Union[dict[str, Any], None]  # noqa: UP007  evaluated by Python 3.10, too


class ProfilerUnavailable(Exception):  # noqa: N818 - an answer, not a fault
    """There can be no such window here; the text says why."""


class Later(Exception):  # noqa: N818
    """Not at this step: what this kind of profiler did last is not over; to be tried at the next."""


class Profiler(Protocol):
    """One window of one profiler. All is called on the training thread, at the begin of a step.

    One that has `at_step(step)` is told of each step that begins within its window, too. One that has
    `forget()` frees by it what it holds, on the thread that did its work, once the agent has been told.
    """

    def __init__(self, session: WindowSession, window: ProfilingWindow) -> None:
        """Make ready; nothing may be installed yet."""
        ...

    def start(self) -> None:
        """Begin. May raise `Later` and `Unavailable`, before anything is installed."""
        ...

    def stop(self) -> Found | Callable[[], Found]:
        """End, and leave no trace; return what the agent must know, None when nothing was found.

        What takes long is returned as a function instead, which is called on a thread of its own while the
        training goes on, and returns that.

        `file` is the name of the file in the spool directory that holds it; the agent deletes it. Added by
        the caller: `profiler`, `number`, `order`, `first_step`, `last_step` (exclusive), `bounds` and
        `wall_minus_monotonic`; see `holter.recorder.window`.
        """
        ...


def make(session: WindowSession, window: ProfilingWindow) -> Profiler:
    """Return a new profiler for `window`; raises `Unavailable` when this version has none."""
    try:
        module = import_module(f"{__name__}.{window.profiler}")
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{window.profiler}":
            raise
        raise ProfilerUnavailable(f"this version has no profiler {window.profiler!r}") from None
    made: Profiler = module.PROFILER(session, window)
    return made
