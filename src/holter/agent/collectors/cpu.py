"""Busy and waiting share of each core, and of what the job may use of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.agent.collectors import Collector, Machine, Reading, read_text

if TYPE_CHECKING:
    from collections.abc import Iterator

_IDLE, _IOWAIT, _COUNTED = 3, 4, 8
"""Places in a line of `/proc/stat`; what comes after the eighth is contained in the first."""


class Cpu(Collector):
    """Utilization per core from `/proc/stat`; of the whole from the control group, when it has a quota."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._ticks()  # where it cannot be read, that is known now
        self._before: dict[int, list[int]] = {}
        self._quota = machine.cgroup.cpus()
        if self._quota is not None and self._quota >= len(machine.cores):
            self._quota = None

    def read(self, now: int) -> Iterator[Reading]:
        """Compare with the last reading."""
        before, self._before = self._before, self._ticks()
        busy_of_mine, waiting_of_mine = [], []
        for core, ticks in self._before.items():
            if core not in before:
                continue
            change = [max(0, after - earlier) for after, earlier in zip(ticks, before[core], strict=True)]
            total = sum(change)
            if total == 0:  # shorter than a tick of the kernel's clock
                continue
            waiting = 100.0 * change[_IOWAIT] / total
            busy = 100.0 - 100.0 * change[_IDLE] / total - waiting
            yield f"cpu{core}", "cpu.core.util", busy
            yield f"cpu{core}", "cpu.core.iowait", waiting
            if core in self.machine.cores:
                busy_of_mine.append(busy)
                waiting_of_mine.append(waiting)
        used = self.machine.cgroup.cpu_used_ns() if self._quota else None
        whole = _mean(busy_of_mine) if used is None else self._of_quota(now, used)
        if whole is not None:
            yield "", "cpu.util", whole
        if (waited := _mean(waiting_of_mine)) is not None:
            yield "", "cpu.iowait", waited
        yield "", "cpu.load1", float(read_text(self.machine.proc / "loadavg").split()[0])

    def _of_quota(self, now: int, used: int) -> float | None:
        rate = self.rate(now, "cpu.util", used)
        return None if rate is None or not self._quota else min(100.0, 100.0 * rate / 1e9 / self._quota)

    def _ticks(self) -> dict[int, list[int]]:
        found = {}
        for line in read_text(self.machine.proc / "stat").splitlines():
            name, _, rest = line.partition(" ")
            if name.startswith("cpu") and name[3:].isdigit():
                found[int(name[3:])] = [int(word) for word in rest.split()[:_COUNTED]]
        return found


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
