"""Contention for cores: the time that the training waits for one, and the programs that use them."""

from __future__ import annotations

import os
import pwd
import time
from typing import TYPE_CHECKING

from holter.agent.collectors import Collector, Machine, Reading, Unavailable
from holter.agent.machine import procfs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LOOK_NS = 5_000_000_000
_MAX_SHARE = 0.005
"""Other programs are read more rarely when reading them takes more than this share of the time."""
_MOST = 3
_WORTH_PCT = 20.0
"""Other programs are named from this percentage of a core on."""


class Contention(Collector):
    """The time that main threads of trainers and workers wait for a core, and the cores of others."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        if _waited_ns(machine.proc, os.getpid()) is None:
            raise Unavailable("the kernel does not count the time that threads wait for a core (schedstat)")
        self._waited: dict[int, int] = {}
        self._read_at = 0
        self._used: dict[tuple[int, int], float] = {}
        self._looked_at = -_LOOK_NS * 1000
        self._pause = _LOOK_NS

    def read(self, now: int) -> Iterator[Reading]:
        """Read the mean delay of each role; every few seconds also the others that use the cores most."""
        before, elapsed, roles = self._waited, now - self._read_at, dict(self.machine.watched.roles)
        read = ((pid, _waited_ns(self.machine.proc, pid)) for pid in roles)
        self._waited, self._read_at = {pid: ns for pid, ns in read if ns is not None}, now
        for role in sorted(set(roles.values())):
            grown = [
                ns - before[pid] for pid, ns in self._waited.items() if pid in before and roles[pid] == role
            ]
            if grown and elapsed > 0:
                yield role, "proc.cpu.delay", min(100.0 * sum(grown) / len(grown) / elapsed, 100.0)
        if now - self._looked_at >= self._pause:
            yield from self._others(now)

    def _others(self, now: int) -> Iterator[Reading]:
        began = time.thread_time_ns()
        watched, elapsed = self.machine.watched, now - self._looked_at
        known = procfs.everything(self.machine.proc)
        ours = procfs.tree([*watched.roots, *watched.companions, os.getpid()], known=known)
        before = self._used
        self._used = {(pid, one.started): one.cpu_s for pid, one in known.items() if pid not in ours}
        spent: dict[str, float] = {}
        for (pid, started), cpu_s in self._used.items():
            used = 1e11 * (cpu_s - before.get((pid, started), cpu_s)) / elapsed
            if used >= 1 and (name := _name(self.machine.proc, pid)):
                spent[name] = spent.get(name, 0.0) + used
        for name in sorted(spent, key=lambda name: -spent[name])[:_MOST]:
            if spent[name] >= _WORTH_PCT:
                yield name, "other.cpu", spent[name]
        self._looked_at = now
        self._pause = max(_LOOK_NS, int((time.thread_time_ns() - began) / _MAX_SHARE))


def _waited_ns(proc: Path, pid: int) -> int | None:
    """Return how long the main thread of a process was ready to run without a core; None where unknown."""
    words = procfs.file_text(proc / str(pid) / "schedstat").split()
    # A kernel that does not count writes `0 0 0`, also for a process that ran.
    return int(words[1]) if len(words) == 3 and words[2] != "0" else None


def _name(proc: Path, pid: int) -> str:
    """Return the name of a program and its user, never its arguments."""
    try:
        name, user = procfs.file_text(proc / str(pid) / "comm"), (proc / str(pid)).stat().st_uid
    except OSError:
        return ""
    try:
        return f"{name} ({pwd.getpwuid(user).pw_name})"
    except KeyError:
        return f"{name} (user {user})"
