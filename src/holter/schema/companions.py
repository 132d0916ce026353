"""Processes of holter next to the training: the command that starts one, its priority, end and faults."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

FAULT = "holter-fault: "
"""Begin of a line about a fault: place, `: ` and text follow. The agent records it once, as holter's."""

_PROGRAM = (
    f"import runpy, sys; sys.path[:] = sys.argv.pop(2).split({os.pathsep!r}); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


def own_command(module: str, *arguments: str, path: Iterable[str] | None = None) -> list[str]:
    """Return the command that runs a module of holter in a process of its own.

    The process ignores `PYTHONPATH` at its start and takes the search path afterwards, so it finds the same
    packages as this process and imports no `sitecustomize` and no `usercustomize` of the user.

    Args:
        module: The module's full name.
        arguments: Arguments of the module.
        path: The search path; by default this process's own, without the folder of the script and without
            the current folder, because a file there could have the name of a library.
    """
    found = list(_search_path() if path is None else path)
    return [sys.executable, "-I", "-c", _PROGRAM, module, os.pathsep.join(found), *arguments]


def _search_path() -> list[str]:
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    script = os.path.dirname(os.path.realpath(sys.argv[0]))
    # The script of a notebook's kernel lies among the packages.
    left_out = {"", os.getcwd(), "" if script.endswith(("site-packages", "dist-packages")) else script}
    found = [entry for entry in sys.path if entry not in left_out]
    return found if root in found else [*found, root]


def stand_by(niceness: int) -> tuple[Callable[[], bool], Callable[[float], object]]:
    """Make this process follow a job: it gives way to the training, and ends when its agent has ended.

    Args:
        niceness: How far it gives way, up to 19.

    Returns:
        A function that says whether to stop, after SIGTERM or SIGINT or once the parent process is gone; and
        one that waits so many seconds, or until such a signal.
    """
    stop, parent = threading.Event(), os.getppid()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with contextlib.suppress(OSError):
        os.nice(niceness)
    return lambda: stop.is_set() or os.getppid() != parent, stop.wait
