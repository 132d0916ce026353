"""The job's processes by role: trainers, their data-loader workers, everything else."""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from holter.agent.collectors import Collector, Machine, Reading
from holter.agent.machine import procfs

if TYPE_CHECKING:
    from collections.abc import Iterator

_REFRESH_NS = 2_000_000_000
_MANY = 32
_MANY_NS = 1_000_000_000
"""With many processes they are read once a second, however short the interval is."""
_MAX_SHARE = 0.01
"""The list is refreshed more rarely when that would take more than this share of the time."""


class Processes(Collector):
    """CPU and memory of the process tree under the command; the tree is looked up every few seconds."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._pids: dict[int, int] = {}
        """Pid and start, so that a pid that is used again is another process."""
        self._files = Counter[str]()
        """Open files by role, until they are handed over: counting them takes longer than other readings."""
        self._refreshed = -_REFRESH_NS * 1000
        self._wait = _REFRESH_NS
        self._read_at = -_MANY_NS * 1000
        self._cpu: dict[tuple[int, int], float] = {}
        self._cpu_at = 0

    def read(self, now: int) -> Iterator[Reading]:
        """Sum over the processes of each role."""
        watched = self.machine.watched
        if now - self._refreshed >= self._wait:
            self._refresh(now)
        if len(self._pids) > _MANY and now - self._read_at < _MANY_NS:
            return
        self._read_at = now
        before, self._cpu = self._cpu, {}
        rss, private, count, known = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
        threads = Counter[str]()
        used: dict[str, float] = defaultdict(float)
        for pid, started in self._pids.items():
            stat = procfs.stat(pid, self.machine.proc)
            if stat is None or not stat.alive or stat.started != started:
                continue
            role = watched.roles.get(pid, "other")
            count[role] += 1
            rss[role] += stat.rss
            threads[role] += stat.threads
            private[role] += self._private(pid)
            self._cpu[pid, started] = stat.cpu_s
            if (pid, started) in before:
                known[role] += 1
                used[role] += max(0.0, stat.cpu_s - before[pid, started])
        elapsed = (now - self._cpu_at) / 1e9
        self._cpu_at = now
        for role in count:
            if known[role] and elapsed > 0:
                yield role, "proc.cpu", 100.0 * used[role] / elapsed
            yield role, "proc.rss", float(rss[role])
            yield role, "proc.private", float(private[role])
            yield role, "proc.count", float(count[role])
            yield role, "proc.threads", float(threads[role])
        files, self._files = self._files, Counter[str]()
        for role in files:
            yield role, "proc.files", float(files[role])

    def _refresh(self, now: int) -> None:
        begin = time.thread_time_ns()
        watched = self.machine.watched
        # Workers of a running Ray cluster record and do not descend from the command.
        roots = [*watched.roots, *watched.roles]
        found = procfs.tree(roots, self.machine.proc, without=[os.getpid(), *watched.companions])
        self._pids = {pid: stat.started for pid, stat in found.items()}
        self._files = Counter[str]()
        for pid in self._pids:
            files = procfs.open_files(pid, self.machine.proc)
            if files is not None:
                self._files[watched.roles.get(pid, "other")] += files
        self._refreshed = now
        self._wait = max(_REFRESH_NS, int((time.thread_time_ns() - begin) / _MAX_SHARE))

    def _private(self, pid: int) -> int:
        """Return resident less shared memory, because the exact sum would read all page tables."""
        try:
            with open(f"{self.machine.proc}/{pid}/statm", "rb") as file:
                words = file.read().split()
        except OSError:
            return 0
        return max(0, int(words[1]) - int(words[2])) * procfs.PAGE if len(words) > 2 else 0
