"""CPU time and memory of holter itself: the agent and its companions."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from holter.agent.collectors import Collector, Machine, Reading
from holter.agent.machine import procfs

if TYPE_CHECKING:
    from collections.abc import Iterator


class Overhead(Collector):
    """The agent measures itself, like everything else it records."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._others: dict[int, float] = {}

    def read(self, now: int) -> Iterator[Reading]:
        """Add up the CPU time of the agent and its companions."""
        for pid in self.machine.watched.companions:
            # One that has ended keeps what it had used.
            if (stat := procfs.stat(pid)) is not None:
                self._others[pid] = stat.cpu_s
        used = time.process_time() + sum(self._others.values())
        yield from self.rates(now, {"agent.cpu": 100.0 * used})
        if (me := procfs.stat(os.getpid())) is not None:
            yield "", "agent.rss", float(me.rss)
