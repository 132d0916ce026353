"""What the scheduler says of each training thread: running, waiting for a core, blocked, and why."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from holter.agent.collectors import Collector, Machine, Reading, Unavailable
from holter.agent.drain.heads import read_head
from holter.agent.machine import procfs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holter.agent.collectors import LoopThread

_STOPPED = "Tt"
_MAJOR_FAULTS, _IO_DELAY = 9, 39
"""Places after the name in `/proc/PID/task/TID/stat`."""


class Threads(Collector):
    """Reads the threads that run a training loop, by rank; also whether they are blocked at the reading."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        if procfs.scheduled(machine.proc / str(os.getpid())) is None:
            raise Unavailable("the kernel does not count the time that threads run and wait (schedstat)")
        self._io = procfs.file_text(machine.proc / "sys" / "kernel" / "task_delayacct") == "1"
        if not self._io:
            self.missing.append(
                ("thread.io", "the kernel does not measure waits for disks (sysctl kernel.task_delayacct=1)")
            )

    def read(self, now: int) -> Iterator[Reading]:
        """Read each training thread."""
        for pid, loop in self.machine.watched.loops.items():
            rank, task = f"rank {loop.rank}", self.machine.proc / str(pid) / "task" / str(loop.thread)
            stat = self._stat(loop, task)
            times = procfs.scheduled(task)
            if stat is None or times is None:
                continue
            stopped = stat.state in _STOPPED
            yield rank, "thread.stopped", 100.0 * stopped
            if not stopped and stat.phase:
                yield f"{rank} {stat.phase}", "thread.blocked", 0.0 if stat.state == "R" else 100.0
            key = f"{rank} {task}"  # a rank that starts again has counters of its own
            status = procfs.counters(task / "status")
            for metric, total, scale in (
                ("thread.running", times.running, 1e-7),
                ("thread.waiting", times.waiting, 1e-7),
                ("thread.io", stat.io_ticks if self._io else None, 100 / procfs.TICKS),
                ("thread.major_faults", stat.major_faults, 1.0),
                ("thread.switches", status.get("voluntary_ctxt_switches:"), 1.0),
                ("thread.preemptions", status.get("nonvoluntary_ctxt_switches:"), 1.0),
            ):
                if total is not None and (speed := self.rate(now, metric, total, key)) is not None:
                    share = scale != 1.0
                    yield rank, metric, min(speed * scale, 100.0) if share else speed

    def _stat(self, loop: LoopThread, task: Path) -> _Stat | None:
        """Return what a thread does now; None when it is gone."""
        text = procfs.file_text(task / "stat")
        fields = text[text.rfind(")") + 2 :].split()
        if len(fields) <= _IO_DELAY:
            return None
        head = read_head(loop.head)
        phase = head.phase.phase_name if head and head.phase else "other"
        state, faults = fields[0], int(fields[_MAJOR_FAULTS])
        return _Stat(state, phase if head else "", faults, int(fields[_IO_DELAY]))


class _Stat(NamedTuple):
    state: str
    phase: str
    """Empty where the head page cannot be read."""
    major_faults: int
    io_ticks: int
