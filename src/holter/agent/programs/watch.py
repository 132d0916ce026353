"""Watches a command that takes no steps: its processes, its stacks, and what repeats in it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from holter.agent.machine import procfs
from holter.agent.programs.processes import ProcessTree
from holter.agent.programs.pulse import Pulse
from holter.agent.programs.stacks import ProgramStacks

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.agent.collectors import Watched
    from holter.agent.drain.drain import Drain
    from holter.agent.drain.event_log import EventLog
    from holter.agent.drain.pipeline import Pipeline
    from holter.agent.programs.spied import SpiedStacks
    from holter.store.parquet.columns import Columns

READ_S = 1.0
"""Time between two readings of the processes; longer where there are many."""
COST_SHARE = 0.005
FIRST_TOLD_S = 10.0
"""The facts are recorded then, again whenever the job is twice as long, and at its end."""


class ProgramWatch:
    """Follows the command until a process of it takes steps."""

    def __init__(
        self,
        watched: Watched,
        drain: Drain,
        event_log: EventLog,
        cpus: float,
        append: Callable[[str, Columns], None],
        *,
        spied: bool = False,
        processes: ProcessTree | None = None,
        stacks: SpiedStacks | None = None,
    ) -> None:
        """`append` takes rows for a table of the store; `cpus` are the cores that the job may use.

        `spied` says that py-spy samples processes with records. `stacks`, of `processes`, are given where the
        processes do not sample themselves, because they were started without holter.
        """
        self._watched = watched
        self._drain = drain
        self._event_log = event_log
        self._cpus = cpus
        self._append = append
        self._spied = spied
        self._began = time.monotonic()
        self._read_at = self._due = 0.0
        self._tell_at = FIRST_TOLD_S
        self.processes = processes or ProcessTree()
        self.stacks = stacks or ProgramStacks(drain.spool, drain)
        self._outside = stacks is not None
        self._pulse: Pulse | None = Pulse(self.processes.busiest)
        self._pulse.begin()
        self._elapsed = 0.0

    @property
    def steps(self) -> bool:
        """Whether a process of the job takes steps."""
        return any(one.steps for one in self._drain.trainers())

    def look(self) -> None:
        """Read what is due. Raises `OSError`."""
        self._look(self.stacks.take())

    def _look(self, sampled: list[Columns]) -> None:
        twice = self._spied and any(one.records for one in self._drain.trainers())
        for rows in sampled:
            if not twice:
                self._append("python_stacks", rows)
        if self.steps:
            self._end_pulse()
            return
        now = time.monotonic()
        if now >= self._due:
            self._read(now)
        if self._pulse is not None:
            for burst in self._pulse.take():
                burst["begin"] = self._drain.clock.to_wall(burst["begin"])
                self._event_log.note("pulse", burst["name"], burst)
        if now - self._began >= self._tell_at:
            self._tell_at *= 2
            self._tell()

    def finish(self) -> None:
        """Read what is left and record the facts. Raises `OSError`."""
        pulse = self._pulse
        if pulse is not None:
            pulse.end()
        self._look(self.stacks.end())
        if not self.steps and self._elapsed:
            self._tell()

    def _end_pulse(self) -> None:
        if self._pulse is not None:
            self._pulse.end()
            self._pulse = None

    def _read(self, now: float) -> None:
        begin = time.thread_time()
        self.processes.read(self._watched.roots, self._watched.companions)
        cost = time.thread_time() - begin
        self._due = now + max(READ_S, cost / COST_SHARE)
        if any(one.alive for one in self.processes.known.values()):
            first = min(one.started for one in self.processes.known.values())
            self._elapsed = time.clock_gettime(time.CLOCK_BOOTTIME) - first / procfs.TICKS

    def _tell(self) -> None:
        processes = self.processes.told()
        detail = {
            "elapsed_s": self._elapsed,
            "cores": self._cpus,
            "cpu_s": self.processes.cpu_s,
            "processes": processes,
            "count": len(self.processes.known),
            "stacks": self.stacks.told(),
            "sampling_s": self.stacks.cost_ns / 1e9,
            "attached": self._outside,
        }
        self._event_log.note(
            "program", self.processes.told()[0]["name"] if self.processes.known else "", detail
        )


def program_watch(
    pipeline: Pipeline,
    watched: Watched,
    event_log: EventLog,
    cpus: float,
    *,
    spied: bool,
    outside: Callable[[str, str], None] | None,
) -> ProgramWatch:
    """Return the watch of a job.

    `outside` is given for a process that was started without holter; it takes what cannot be measured, and
    why.
    """
    drain = pipeline.drain
    if drain is None:
        raise ValueError("there is no spool")
    processes = ProcessTree()
    stacks = None
    if outside is not None:
        from holter.agent.programs.spied import SpiedStacks

        stacks = SpiedStacks(watched.roots[0], drain.spool, drain.clock, processes, watched, outside)
    return ProgramWatch(
        watched,
        drain,
        event_log,
        cpus,
        pipeline.writer.append,
        spied=spied,
        processes=processes,
        stacks=stacks,
    )
