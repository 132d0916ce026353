"""Reads limits and counters of the job's control group, version 1, version 2 or both."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holter.agent.machine.procfs import PROC, counters, file_text

if TYPE_CHECKING:
    from collections.abc import Iterator

SYS = Path("/sys")
_UNLIMITED = 1 << 60
"""Version 1 says "no limit" with a number near the largest; no machine has this much memory."""


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """Where the control files are: for each controller the group's own folder first, then its parents."""

    cpu: tuple[Path, ...]
    memory: tuple[Path, ...]
    unified: bool
    """Whether the files are those of version 2."""

    @classmethod
    def of(cls, pid: int | str = "self", *, proc: Path = PROC, sys: Path = SYS) -> ControlGroup:
        """Find the group of a process; a process without a group has no folders."""
        root = sys / "fs" / "cgroup"
        lines = file_text(proc / str(pid) / "cgroup").splitlines()
        paths: dict[str, str] = {}
        for line in lines:
            _, _, rest = line.partition(":")
            names, _, path = rest.partition(":")
            for name in names.split(","):
                paths[name] = path
        if (root / "cgroup.controllers").exists():
            folders = tuple(_upward(root, paths.get("", "/")))
            return cls(folders, folders, unified=True)
        return cls(
            tuple(_upward(_mounted(root, "cpu"), paths.get("cpu", "/"))),
            tuple(_upward(root / "memory", paths.get("memory", "/"))),
            unified=False,
        )

    def cpus(self) -> float | None:
        """Return the CPU quota in cores, the smallest of the group and its parents; None without one."""
        found = [quota for folder in self.cpu if (quota := self._quota(folder)) is not None]
        return min(found, default=None)

    def _quota(self, folder: Path) -> float | None:
        if self.unified:
            quota, _, period = file_text(folder / "cpu.max").partition(" ")
        else:
            quota, period = file_text(folder / "cpu.cfs_quota_us"), file_text(folder / "cpu.cfs_period_us")
        try:
            cores = int(quota) / int(period)
        except (ValueError, ZeroDivisionError):  # "max", or no such file
            return None
        return cores if cores > 0 else None

    def memory_limit(self) -> int | None:
        """Return the memory limit in bytes, the smallest of the group and its parents; None without one."""
        name = "memory.max" if self.unified else "memory.limit_in_bytes"
        values = [_integer(folder / name) for folder in self.memory]
        return min((value for value in values if value is not None and value < _UNLIMITED), default=None)

    def memory_used(self) -> int | None:
        """Return what counts against the limit without page cache that can be given back, in bytes."""
        for folder in self._limited():
            usage = _integer(folder / ("memory.current" if self.unified else "memory.usage_in_bytes"))
            if usage is None:
                continue
            facts = counters(folder / "memory.stat")
            prefix = "" if self.unified else "total_"
            cache = facts.get("file" if self.unified else "total_cache", 0)
            # Files in /dev/shm count as cache too, but they cannot be given back.
            return max(0, usage - max(0, cache - facts.get(f"{prefix}shmem", 0)))
        return None

    def memory_peak(self) -> int | None:
        """Return the largest usage the kernel has seen in the group, page cache included, in bytes."""
        for folder in self._limited():
            return _integer(folder / ("memory.peak" if self.unified else "memory.max_usage_in_bytes"))
        return None

    def _limited(self) -> Iterator[Path]:
        """Yield the folder whose limit is the smallest, else the group's own."""
        name = "memory.max" if self.unified else "memory.limit_in_bytes"
        limits = [(_integer(folder / name), folder) for folder in self.memory]
        limited = [(limit, folder) for limit, folder in limits if limit is not None and limit < _UNLIMITED]
        yield from [min(limited, key=lambda item: item[0])[1]] if limited else self.memory[:1]

    def oom_kills(self) -> int | None:
        """Return how many processes the kernel killed here for want of memory; None when it does not say."""
        name = "memory.events" if self.unified else "memory.oom_control"
        counts = [counters(folder / name).get("oom_kill") for folder in self.memory]
        known = [count for count in counts if count is not None]
        # Version 2 counts upward itself; in version 1 a parent's counter is about other groups.
        return known[0] if known else None

    def throttling(self) -> tuple[int, int] | None:
        """Return (periods, periods in which the quota ran out) so far; None without a quota."""
        for folder in self.cpu:
            if self._quota(folder) is not None:
                facts = counters(folder / "cpu.stat")
                if "nr_periods" in facts:
                    return facts["nr_periods"], facts.get("nr_throttled", 0)
        return None

    def cpu_used_ns(self) -> int | None:
        """Return CPU time used so far by the group that has the quota, in ns."""
        for folder in self.cpu:
            if self._quota(folder) is not None:
                if self.unified:
                    used = counters(folder / "cpu.stat").get("usage_usec")
                    return None if used is None else used * 1000
                # Both controllers may be mounted together or each for itself.
                apart = Path(str(folder).replace("/fs/cgroup/cpu", "/fs/cgroup/cpuacct", 1))
                together = _integer(folder / "cpuacct.usage")
                return _integer(apart / "cpuacct.usage") if together is None else together
        return None


def _mounted(root: Path, name: str) -> Path:
    """Return the folder of a controller of version 1, whichever way it is mounted."""
    return next(
        (root / n for n in (f"{name},cpuacct", f"cpuacct,{name}", name) if (root / n).is_dir()), root / name
    )


def _upward(root: Path, path: str) -> Iterator[Path]:
    """Yield the group's folder and its parents up to `root`, those that can be seen from here."""
    here = root / path.strip("/")
    # In a container the path is the host's, but the group itself is mounted at the root.
    if not here.is_dir():
        here = root
    while here.is_dir():
        yield here
        if here == root:
            return
        here = here.parent


def _integer(path: Path) -> int | None:
    try:
        return int(file_text(path))
    except ValueError:
        return None
