"""Lists, reaps and kills child processes of the agent."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING

from holter.agent.machine import procfs
from holter.agent.supervision.deaths import Ended

if TYPE_CHECKING:
    from collections.abc import Sequence


def reap(pid: int) -> Ended | None:
    """Return how a child ended; None while it runs."""
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return Ended(None)
    return None if ended == 0 else _ended(status)


def wait_for(pid: int) -> Ended:
    """Wait for the end of a child and return it."""
    try:
        return _ended(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        return Ended(None)


def send(pid: int, number: int) -> None:
    """Send a signal to a process, if it is still there."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def end_descriptor(pid: int) -> int:
    """Open a descriptor that becomes readable when the process ends; -1 on old kernels."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1


def kill_trees(roots: Sequence[int]) -> None:
    """Kill processes and all that descends from them."""
    for _ in range(3):  # what is started meanwhile is found in the next turn
        living = [pid for pid, stat in procfs.tree(roots).items() if stat.alive]
        for pid in living:
            send(pid, signal.SIGKILL)
        if not living:
            return


def children() -> list[procfs.Stat]:
    """Return our own children, zombies too, without looking at every process there is."""
    try:
        tasks = os.listdir("/proc/self/task")
    except OSError:
        return []
    found = []
    for task in tasks:
        with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/children") as file:
            found += [stat for word in file.read().split() if (stat := procfs.stat(int(word))) is not None]
    return found


def _ended(status: int) -> Ended:
    return Ended(None, os.WTERMSIG(status)) if os.WIFSIGNALED(status) else Ended(os.WEXITSTATUS(status))
