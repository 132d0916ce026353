"""Profilers that run in a window, one file each: their contract.

A profiler is a class, the `PROFILER` of a module of this folder. `holter.schema.windows.PROFILERS` lists the
modules; each is imported when its first window begins. An exception ends the window, never the training. The
text of `ProfilerUnavailable` explains why there is no window.

A profiler writes raw data into a file of the spool directory. The module of the same name in
`holter.agent.drain.windows` converts them to rows, or the one that the fact `format` names.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, Union

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.profiling_window import ProfilingWindow, WindowSession


Found = Union[dict[str, object], None]  # noqa: UP007  evaluated by Python 3.10, too


class ProfilerUnavailable(Exception):  # noqa: N818 - an answer, not a fault
    """This window cannot run here; the text says why."""


class Later(Exception):  # noqa: N818
    """The last window of this profiler has just ended; the next step tries again."""


class Profiler(Protocol):
    """One window of one profiler. The training thread calls its methods at the begin of a step.

    The optional method `at_step(step)` is called at the begin of each further step. The optional method
    `forget()` frees memory on the thread that did the work, after the facts are journaled.
    """

    def __init__(self, session: WindowSession, window: ProfilingWindow) -> None:
        """Prepare, without installing anything."""

    def start(self) -> None:
        """Begin. May raise `Later` and `ProfilerUnavailable` before it installs anything."""

    def stop(self) -> Found | Callable[[], Found]:
        """End and remove everything; return the facts for the agent, or None.

        Slow work is returned as a function instead. Another thread calls it while the training continues, and
        it returns the facts.

        `file` is the name of the file in the spool directory; the agent deletes it. The caller adds
        `profiler`, `number`, `order`, `first_step`, `last_step` (exclusive), `bounds` and
        `wall_minus_monotonic`.
        """


def make(session: WindowSession, window: ProfilingWindow) -> Profiler:
    """Return a new profiler for `window`; raises `ProfilerUnavailable` if this version has none."""
    name = f"{__name__}.{window.profiler}"
    try:
        module = import_module(name)
        if window.profiler == "operators":
            xplane = import_module(f"{__name__}.xplane")
            module = xplane if xplane.collects(session) else module
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ProfilerUnavailable(f"this version has no profiler {window.profiler!r}") from None
    made: Profiler = module.PROFILER(session, window)
    return made
