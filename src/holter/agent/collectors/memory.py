"""Memory of the node, or of the control group when its limit is smaller."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holter.agent.collectors import Collector, Machine, Reading, Unavailable
from holter.agent.machine.procfs import PAGE, counters, meminfo

if TYPE_CHECKING:
    from collections.abc import Iterator


class Memory(Collector):
    """Reads `/proc/meminfo`, the memory controller and the size of shared memory."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        if "MemTotal" not in meminfo(machine.proc):
            raise Unavailable(f"{machine.proc / 'meminfo'} does not say how much memory there is")
        if not machine.shm.is_dir():
            self.missing.append(("shm.used", f"there is no {machine.shm}"))

    def read(self, now: int) -> Iterator[Reading]:
        """Read what is in use now."""
        facts = meminfo(self.machine.proc)
        total, available = facts["MemTotal"], facts.get("MemAvailable")
        used = None if available is None else total - available
        # The limit may be changed while the job runs.
        limit = self.machine.cgroup.memory_limit()
        if limit is not None and limit < total and (mine := self.machine.cgroup.memory_used()) is not None:
            total, used = limit, mine
            rest = max(0, limit - mine)
            available = rest if available is None else min(available, rest)
        if used is not None:
            yield "", "mem.used", float(used)
            yield "", "mem.used_pct", 100.0 * used / total
        if available is not None:
            yield "", "mem.available", float(available)
        if facts.get("SwapTotal"):
            yield "", "mem.swap_used", float(facts["SwapTotal"] - facts.get("SwapFree", 0))
            pages = counters(self.machine.proc / "vmstat").get("pswpin")
            yield from self.rates(now, {"mem.swap_in": None if pages is None else pages * float(PAGE)})
        if self.machine.shm.is_dir():
            space = os.statvfs(self.machine.shm)
            yield "", "shm.used", float((space.f_blocks - space.f_bfree) * space.f_frsize)
