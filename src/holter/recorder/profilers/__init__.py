"""Profilers that run in a window, one file each: their contract.

A profiler is a class, which a module of this folder names as its `PROFILER`; the module is named as in
`holter.schema.windows.PROFILERS` and imported when its first window begins. An exception costs its window,
never the training; the text of `ProfilerUnavailable` says why there is no window.

It writes its raw data into a file of the spool directory; the module of the same name in
`holter.agent.drain.windows` makes rows of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, Union

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.profiling_window import ProfilingWindow, WindowSession


Found = Union[dict[str, Any], None]  # noqa: UP007  evaluated by Python 3.10, too


class ProfilerUnavailable(Exception):  # noqa: N818 - an answer, not a fault
    """This window cannot run here; the text says why."""


class Later(Exception):  # noqa: N818
    """The last window of this profiler is not over; the next step tries again."""


class Profiler(Protocol):
    """One window of one profiler. All is called on the training thread, at the begin of a step.

    The optional method `at_step(step)` is called at each step that begins within the window. The optional
    method `forget()` frees memory, on the thread that did the work, after the agent has the window's facts.
    """

    def __init__(self, session: WindowSession, window: ProfilingWindow) -> None:
        """Make ready; nothing may be installed yet."""

    def start(self) -> None:
        """Begin. May raise `Later` and `Unavailable`, before anything is installed."""

    def stop(self) -> Found | Callable[[], Found]:
        """End, and leave no trace; return what the agent must know, None when nothing was found.

        What takes long is returned as a function instead, which is called on a thread of its own while the
        training goes on, and returns that.

        `file` is the name of the file in the spool directory that holds it; the agent deletes it. Added by
        the caller: `profiler`, `number`, `order`, `first_step`, `last_step` (exclusive), `bounds` and
        `wall_minus_monotonic`; see `holter.recorder.window`.
        """


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
