"""The agent's writer thread does all slow work, so the supervisor never waits."""

from __future__ import annotations

import ctypes
import os
import queue
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holter.agent.collectors import Machine, Watched
from holter.agent.drain.control import Control
from holter.agent.drain.event_log import EventLog
from holter.agent.drain.node_report import NodeReport
from holter.agent.drain.periods import periods_of
from holter.agent.machine.cgroups import ControlGroup
from holter.agent.supervision.companions import START_AFTER_S, Companions
from holter.agent.supervision.deaths import Ending, OomCounters, failure, oom_kill

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holter.agent.drain.clock import Clock
    from holter.agent.drain.pipeline import Pipeline
    from holter.agent.drain.recent import RecentRecords
    from holter.agent.programs.watch import ProgramWatch
    from holter.agent.python_samples import PythonSamples
    from holter.agent.supervision.hangs import HangLimits
    from holter.agent.supervision.process_monitor import ProcessMonitor
    from holter.store.document_types import FailureEntry
    from holter.store.documents import Document
    from holter.store.job import JobFolder

NICE = 10
_M_ARENA_MAX, _M_MMAP_THRESHOLD = -8, -3
POLL_S = 0.5
LOOK_S = 1.0
_CLOCK_STEP_NS = 100_000_000
_FAILURES = 20  # a duty that fails so many times in a row is given up


@dataclass(slots=True)
class WriterPlan:
    """The parameters of the writer thread."""

    folder: JobFolder
    node: str
    interval_ms: int
    spool: Path | None
    clock: Clock
    limits: HangLimits
    roots: list[int]
    companions: Sequence[list[str]] = ()
    told: bytes = b""  # standard input of the companions
    environment: dict[str, str] = field(default_factory=dict)
    attached: bool = False
    outside: bool = False
    """Whether the processes were started without holter, so that all is read from outside."""
    cores: frozenset[int] | None = None  # those of the job, where they are not the agent's
    facts: Document = field(default_factory=dict)
    """Facts of the node in addition to those of the machine."""
    leads: bool = True  # whether this node writes the job's manifest
    tell: Callable[[str], None] | None = None  # prints a line for the user
    recent: RecentRecords | None = None  # for whoever shows the job while it runs


class WriterThread(threading.Thread):
    """Drains the spool, writes to the store and watches the job until `finish`."""

    def __init__(self, plan: WriterPlan, *, wake: Callable[[], None]) -> None:
        super().__init__(name="holter-writer", daemon=True)
        self.plan = plan
        self.event_log = EventLog(plan.clock)
        self.failure: FailureEntry | None = None
        self.pipeline: Pipeline | None = None
        self.monitor: ProcessMonitor | None = None
        self._control = Control(plan.folder, self.event_log, leads=plan.leads, on_stop=wake)
        self._report = NodeReport(plan.folder, plan.node, plan.clock, leads=plan.leads)
        self._cpu_before = time.process_time()
        self._watched = Watched(roots=list(plan.roots))
        log = None if plan.spool is None else plan.spool / "companions.log"
        self._companions = Companions(plan.companions, log, self._watched, plan.told, self.event_log.fault)
        self._alarm = threading.Event()
        self._hurry = threading.Event()
        self._ending: Ending | None = None
        self._adopted: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._failures: dict[str, int] = {}
        self._drift = 0
        self._robbed: set[str] = set()
        self._python: PythonSamples | None = None
        self._program: ProgramWatch | None = None
        self._began = time.monotonic()
        self._cgroup = ControlGroup((), (), unified=False)
        self._oom_before = OomCounters(None, None)

    @property
    def stop_wanted(self) -> Document | None:
        """The order to stop the job; None without one."""
        return self._control.stop

    @property
    def program(self) -> ProgramWatch | None:
        """The watch of a command that takes no steps; None before it begins, and where none is needed."""
        return self._program

    @property
    def companion_pids(self) -> list[int]:
        """The agent's own processes, which are not orphans of the job."""
        return list(self._watched.companions)

    @property
    def cpu_s(self) -> float:
        """CPU time of the agent and its companions since the job began."""
        return time.process_time() - self._cpu_before + self._companions.cpu_s

    @property
    def stopped(self) -> bool:
        """Whether a user ended the job: by an order, or by Ctrl-C shortly before the end."""
        ending = self._ending
        by_hand = ending is not None and ending.interrupted and ending.ended.exit_code != 0
        return self.stop_wanted is not None or by_hand

    def adopt(self, pid: int) -> None:
        """Watch a process of the job that outlived its parent."""
        self._adopted.put(pid)

    def finish(self, ending: Ending) -> None:
        """Write the remaining records and end, because the command has ended."""
        self._ending = ending
        self._alarm.set()

    def hurry(self) -> None:
        """Stop waiting."""
        self._hurry.set()

    def run(self) -> None:
        """Work until `finish`; a failing duty affects neither the command nor the other duties."""
        self._duty("priority", _lower_priority)
        self._duty("memory", _give_memory_back)
        self._duty("open", self._open)
        due: dict[str, float] = {}
        rhythm = periods_of(self.plan.folder)
        duties = (
            ("control", rhythm.orders_s, lambda: self._control.obey(self.pipeline, self.monitor)),
            ("watch", LOOK_S, self._look),
            ("heartbeat", rhythm.heartbeat_s, self._heartbeat),
        )
        while self._ending is None:
            pipeline = self.pipeline
            more = pipeline is not None and self._duty("drain", pipeline.poll)
            now = time.monotonic()
            for name, period, duty in duties:
                if now >= due.get(name, 0.0):
                    due[name] = now + period
                    self._duty(name, duty)
            if pipeline is not None:
                self._duty("samples", pipeline.samples)
                self._duty("events", pipeline.events)
            if self._ending is None and not more:
                self._alarm.wait(POLL_S)
        self._final(self._ending)

    def _duty(self, name: str, duty: Callable[[], Any]) -> Any:
        if self._failures.get(name, 0) >= _FAILURES:
            return None
        try:
            result = duty()
        except Exception as error:
            # An unreachable store can come back after hours.
            self._failures[name] = self._failures.get(name, 0) + (not isinstance(error, OSError))
            self.event_log.fault(name, error)
            return None
        self._failures[name] = 0
        return result

    def _open(self) -> None:
        """Record the place of the spool, then create everything; slow imports run while the command runs."""
        plan = self.plan
        self._duty("node", lambda: plan.folder.update_node(plan.node, **plan.facts))
        self._cgroup = ControlGroup.of(plan.roots[0] if plan.outside else "self")
        self._oom_before = OomCounters.read(self._cgroup)
        local = getattr(plan.folder.place, "path", None)
        machine = Machine(
            store=local if isinstance(local, Path) else None,
            watched=self._watched,
            environment=plan.environment,
            cgroup=self._cgroup,
            cores=plan.cores or frozenset(os.sched_getaffinity(0)),
        )
        self._report.examine(machine, plan.facts)
        self._duty("gpu mapping", lambda: self._report.map_gpus(plan.environment))
        self._duty("scheduler", lambda: self._report.schedule(plan.environment, ask=plan.leads))
        from holter.agent.drain.drain import Drain
        from holter.agent.drain.horovod import timeline
        from holter.agent.drain.pipeline import Pipeline
        from holter.agent.programs.watch import program_watch
        from holter.agent.python_samples import samples
        from holter.agent.sampling import Sampler
        from holter.agent.supervision.process_monitor import ProcessMonitor
        from holter.store.writer import Writer

        self.pipeline = Pipeline(
            Writer(plan.folder, plan.node),
            None if plan.spool is None else Drain(plan.spool, plan.clock),
            Sampler(self._report.collectors, plan.clock, plan.interval_ms, on_fault=self.event_log.fault),
            self.event_log,
            self._watched,
            timeline(plan.environment, plan.clock),
            plan.recent,
        )
        self._python, why = samples(plan.environment, self.pipeline, self._companions)
        if why:
            self._report.lacks("python samples", why)
        if self.pipeline.drain is not None:
            if plan.outside or not plan.attached:
                self._program = program_watch(
                    self.pipeline,
                    self._watched,
                    self.event_log,
                    machine.cpus(),
                    spied=self._python is not None,
                    outside=self._report.lacks if plan.outside else None,
                )
            self.monitor = ProcessMonitor(self.pipeline.drain, plan.limits, tell=plan.tell)

    def _look(self) -> None:
        """Check companions, processes, trainers and the clock."""
        while not self._adopted.empty():
            self._watched.roots.append(self._adopted.get())
        if time.monotonic() - self._began >= START_AFTER_S:
            self._companions.start()
        self._companions.look()
        if self._python is not None:
            self._python.look()
        if self._program is not None:
            self._program.look()
        self._look_at_spool()
        if self.monitor is not None:
            ending = self.stop_wanted is not None
            self.event_log.add(*self.monitor.look(time.monotonic_ns(), ending=ending))
        drift = self.plan.clock.drift()
        if abs(drift - self._drift) >= _CLOCK_STEP_NS:
            detail = {"moved_ns": drift - self._drift, "from_anchor_ns": drift}
            self.event_log.note("clock", "the wall clock moved", detail)
            self._drift = drift

    def _look_at_spool(self) -> None:
        """Say once what was deleted from the spool, as by a cleaner of temporary files."""
        drain = None if self.pipeline is None else self.pipeline.drain
        for what in () if drain is None else drain.robbed():
            if what not in self._robbed:
                self._robbed.add(what)
                self.event_log.fault(
                    "spool", f"{what}: deleted while the job ran; records that were not stored yet are lost"
                )

    def _heartbeat(self) -> None:
        self._report.write(None if self.pipeline is None else self.pipeline.drain)

    def _final(self, ending: Ending) -> None:
        """Take the remaining records, judge the end, and close the store."""
        pipeline, attached = self.pipeline, self.plan.attached
        self._duty("companions", self._companions.stop)
        self._duty("gpu mapping", self._report.unmap_gpus)
        if pipeline is None:
            return
        if self._python is not None:
            self._duty("python samples", self._python.look)
        self._duty("spool", self._look_at_spool)
        if not attached:
            self._duty("linger", lambda: pipeline.linger(self._hurry))
        self._duty("last records", lambda: pipeline.finish(attached=attached))
        if self._program is not None:
            self._duty("program", self._program.finish)
        self._duty("judge", lambda: self._judge(ending))
        self._duty("node", self._heartbeat)
        self._duty("samples", pipeline.samples)
        self._duty("events", pipeline.events)
        self._duty("close", lambda: pipeline.close(self._hurry))

    def _judge(self, ending: Ending) -> None:
        """Find out how the job ended."""
        ended = ending.ended
        if ended.exit_code is not None:
            detail = {"exit_code": ended.exit_code, "signal": ended.signal, "role": "command"}
            self.event_log.note("exit", "command", detail)
        if self.monitor is not None:
            well = ended.exit_code in (0, None) and not ending.asked and self.stop_wanted is None
            self.event_log.add(*self.monitor.end(time.monotonic_ns(), well=well))
        if self.stopped:
            return
        drain, limit = None if self.pipeline is None else self.pipeline.drain, self._cgroup.memory_limit()
        self.failure = failure(
            ended,
            [] if drain is None else [one for one in drain.processes.values() if not one.is_worker],
            oom=oom_kill(
                self._oom_before,
                OomCounters.read(self._cgroup),
                peak=self._cgroup.memory_peak() if limit else None,
                limit=limit,
            ),
            hanging=self.monitor is not None and self.monitor.hanging,
            clock_offset=self.plan.clock.offset,
            rank_of=(lambda process: -1) if drain is None else drain.ranks.of,
        )
        if self.failure is not None and self.failure["kind"] == "oom":
            rank = -1 if self.failure["rank"] is None else self.failure["rank"]
            self.event_log.note("oom", str(self.failure["certainty"]), {**self.failure}, rank=rank)


def _lower_priority() -> None:
    """Lower the priority; on Linux this holds for the calling thread, and for what it starts."""
    os.setpriority(os.PRIO_PROCESS, 0, max(os.getpriority(os.PRIO_PROCESS, 0), NICE))


def _give_memory_back() -> None:
    """Return freed memory to the system at once, where the C library supports it (glibc)."""
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_M_ARENA_MAX, 1)
        library.mallopt(_M_MMAP_THRESHOLD, 65_536)
