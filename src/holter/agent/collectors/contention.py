"""Contention for cores: the time that the job waits for one, and the threads and programs that want them."""

from __future__ import annotations

import contextlib
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
    """The time that the job's threads are ready to run without a core, and the cores of other programs."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        if procfs.scheduled(machine.proc / str(os.getpid())) is None:
            raise Unavailable("the kernel does not count the time that threads wait for a core (schedstat)")
        self._waited: dict[tuple[int, int], int] = {}
        self._read_at = 0
        self._wanted: dict[tuple[int, str], int] = {}
        self._counted_at = 0
        self._counting_pause = 0
        self._used: dict[tuple[int, int], float] = {}
        self._looked_at = -_LOOK_NS * 1000
        self._pause = _LOOK_NS

    def read(self, now: int) -> Iterator[Reading]:
        """Read the mean delay by role, the threads that want a core, and every few seconds other programs."""
        before, elapsed = self._waited, now - self._read_at
        roles, loops = self.machine.watched.roles, self.machine.watched.loops
        # The main thread of a process need not train: a worker of Ray Train trains in another one.
        threads = [(pid, loops[pid].thread if pid in loops else pid) for pid in roles]
        read = (
            (one, procfs.scheduled(self.machine.proc / str(one[0]) / "task" / str(one[1]))) for one in threads
        )
        self._waited, self._read_at = {one: times.waiting for one, times in read if times is not None}, now
        for role in sorted(set(roles.values())):
            mine = [one for one in self._waited if one in before and roles[one[0]] == role]
            grown = sum(self._waited[one] - before[one] for one in mine)
            if mine and elapsed > 0:
                yield role, "proc.cpu.delay", min(100.0 * grown / len(mine) / elapsed, 100.0)
        if now - self._counted_at >= self._counting_pause:
            yield from self._runnable(now)
        if now - self._looked_at >= self._pause:
            yield from self._others(now)

    def _runnable(self, now: int) -> Iterator[Reading]:
        """Read how many threads of each role run or wait for a core; rarely where there are many."""
        began, before, elapsed = time.thread_time_ns(), self._wanted, now - self._counted_at
        self._wanted, roles = {}, self.machine.watched.roles
        for pid in roles:
            folder = self.machine.proc / str(pid) / "task"
            with contextlib.suppress(OSError):  # it has ended
                for thread in os.listdir(folder):
                    if (one := procfs.scheduled(folder / thread)) is not None:
                        self._wanted[pid, thread] = one.running + one.waiting
        grown: dict[str, int] = {}
        for (pid, thread), ns in self._wanted.items():
            if (pid, thread) in before:
                grown[roles[pid]] = grown.get(roles[pid], 0) + ns - before[pid, thread]
        for role, ns in grown.items():
            yield role, "proc.runnable", ns / elapsed
        self._counted_at = now
        self._counting_pause = int((time.thread_time_ns() - began) / _MAX_SHARE)

    def _others(self, now: int) -> Iterator[Reading]:
        began = time.thread_time_ns()
        watched, elapsed = self.machine.watched, now - self._looked_at
        known = procfs.everything(self.machine.proc)
        roots = [*watched.roots, *watched.roles, *watched.companions, os.getpid()]
        ours = procfs.tree(roots, known=known)
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
