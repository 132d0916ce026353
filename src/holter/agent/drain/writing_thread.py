"""The agent's writing thread: all that may be slow, so that the thread that supervises never waits."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holter.agent.collectors import Machine, Watched, collectors
from holter.agent.drain.notes import Notes
from holter.agent.machine.cgroups import Cgroup
from holter.agent.machine.node import node_facts
from holter.agent.supervision.attention import Attention
from holter.agent.supervision.companions import START_AFTER_S, Companions
from holter.agent.supervision.deaths import Ended, OomCounters, failure, oom_kill
from holter.agent.supervision.priority import give_memory_back, lower
from holter.schema.windows import orders

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holter.agent.drain.clock import Clock
    from holter.agent.drain.intake import Intake
    from holter.agent.python_samples import PythonSamples
    from holter.agent.supervision.hangs import HangLimits
    from holter.agent.supervision.watch import Watch
    from holter.store.job import JobFolder

POLL_S = 0.5
LOOK_S = 1.0
CONTROL_S = 0.4
"""Less than a poll: who asks for a window wants it now."""
HEARTBEAT_S = 4.0
INTERRUPTED_S = 60.0  # a job that ends within this time of a Ctrl-C was ended by it
_CLOCK_STEP_NS = 100_000_000
_FAILURES = 20  # a duty that fails so many times in a row is given up


@dataclass(slots=True)
class Plan:
    """What the scribe is to do; set once by who starts it."""

    folder: JobFolder
    node: str
    interval_ms: int
    spool: Path | None
    clock: Clock
    limits: HangLimits
    roots: list[int]
    companions: Sequence[list[str]] = ()
    told: bytes = b""  # what companions find on their standard input
    environment: dict[str, str] = field(default_factory=dict)
    attached: bool = False
    facts: dict[str, Any] = field(default_factory=dict)
    """What the node says of itself beside what the machine tells."""
    leads: bool = True  # whether it is this node that writes the job's manifest
    tell: Callable[[str], None] | None = None  # says a line to who started the job


class Scribe(threading.Thread):
    """Drains, writes, and looks after the job; `finish` ends it."""

    def __init__(self, plan: Plan, *, wake: Callable[[], None]) -> None:
        super().__init__(name="holter-scribe", daemon=True)
        self.plan = plan
        self.notes = Notes(plan.clock)
        self.stop_wanted: dict[str, Any] | None = None
        """What `control.json` says about stopping."""
        self.interrupted: float | None = None
        """When somebody pressed Ctrl-C last, monotonic seconds; the supervisor keeps it."""
        self.asked = False
        """Whether a signal asked the job to end; the supervisor keeps it."""
        self.failure: dict[str, Any] | None = None
        self.intake: Intake | None = None
        self.watch: Watch | None = None
        self.orphans: list[int] = []
        """Processes of the job that outlived their parent; the supervisor keeps it."""
        self._cpu_before = time.process_time()
        self._watched = Watched(roots=list(plan.roots))
        log = None if plan.spool is None else plan.spool / "companions.log"
        self._companions = Companions(plan.companions, log, self._watched, plan.told, self.notes.fault)
        self._wake_supervisor = wake
        self._alarm = threading.Event()
        self._hurry = threading.Event()
        self._ended: Ended | None = None
        self._ended_at = 0.0
        self._failures: dict[str, int] = {}
        self._drift = 0
        self._python: PythonSamples | None = None
        self._stacks_wanted: dict[str, Any] | None = None
        self._attention = Attention()
        self._framework: dict[str, Any] | None = None
        self._facts: dict[str, Any] = {}
        self._began = time.monotonic()
        self._cgroup = Cgroup((), (), unified=False)
        self._oom_before = OomCounters(None, None)

    @property
    def companion_pids(self) -> list[int]:
        """Our own processes, which are no orphans of the job."""
        return list(self._watched.companions)

    @property
    def cpu_s(self) -> float:
        """CPU time that we and our companions used since the job began."""
        return time.process_time() - self._cpu_before + self._companions.cpu_s

    @property
    def stopped(self) -> bool:
        """Whether somebody ended the job on purpose: on request, or by Ctrl-C shortly before."""
        if self.stop_wanted is not None:
            return True
        by_hand = self.interrupted is not None and self._ended is not None and self._ended.exit_code != 0
        return by_hand and self._ended_at - (self.interrupted or 0.0) < INTERRUPTED_S

    def finish(self, ended: Ended) -> None:
        """Say that the command has ended: take what is left, write it, and end."""
        self._ended_at = time.monotonic()
        self._ended = ended
        self._alarm.set()

    def hurry(self) -> None:
        """Wait for nothing more."""
        self._hurry.set()

    def run(self) -> None:
        """Work until `finish`; whatever fails here concerns neither the command nor the other duties."""
        self._duty("priority", lower)
        self._duty("memory", give_memory_back)
        self._duty("open", self._open)
        due: dict[str, float] = {}
        duties = (
            ("control", CONTROL_S, self._control),
            ("watch", LOOK_S, self._look),
            ("heartbeat", HEARTBEAT_S, self._heartbeat),
        )
        while self._ended is None:
            intake = self.intake
            more = intake is not None and self._duty("drain", intake.poll)
            now = time.monotonic()
            for name, period, duty in duties:
                if now >= due.get(name, 0.0):
                    due[name] = now + period
                    self._duty(name, duty)
            if intake is not None:
                self._duty("samples", intake.samples)
                self._duty("events", intake.events)
            if self._ended is None and not more:
                self._alarm.wait(POLL_S)
        self._final(self._ended)

    def _duty(self, name: str, duty: Callable[[], Any]) -> Any:
        if self._failures.get(name, 0) >= _FAILURES:
            return None
        try:
            result = duty()
        except Exception as error:
            # A store that is away comes back, after hours even.
            self._failures[name] = self._failures.get(name, 0) + (not isinstance(error, OSError))
            self.notes.fault(name, error)
            return None
        self._failures[name] = 0
        return result

    def _open(self) -> None:
        """Say where the spool is, then make everything: the dear imports run beside the command."""
        plan = self.plan
        self._duty("node", lambda: plan.folder.update_node(plan.node, **plan.facts))
        self._cgroup = Cgroup.of()
        self._oom_before = OomCounters.read(self._cgroup)
        local = getattr(plan.folder.place, "path", None)
        machine = Machine(
            store=local if isinstance(local, Path) else None,
            watched=self._watched,
            environment=plan.environment,
            cgroup=self._cgroup,
        )
        self._made, self._missing = collectors(machine)
        self._facts = {**node_facts(machine, self._made, self._missing, plan.clock), **plan.facts}
        from holter.agent.drain.horovod import timeline
        from holter.agent.drain.intake import Intake
        from holter.agent.python_samples import samples
        from holter.agent.supervision.watch import Watch

        self.intake = Intake(
            plan.folder,
            plan.node,
            spool=plan.spool,
            clock=plan.clock,
            collectors=self._made,
            interval_ms=plan.interval_ms,
            watched=self._watched,
            notes=self.notes,
            timeline=timeline(plan.environment, plan.clock),
        )
        self._python, why = samples(plan.environment, self.intake, self._companions)
        self._missing += [("python samples", why)] if why else []
        if self.intake.drain is not None:
            self.watch = Watch(self.intake.drain, plan.limits, tell=plan.tell)

    def _control(self) -> None:
        """Obey `control.json`: stop, the monitor, the stacks of every process, profiling windows."""
        control = self.plan.folder.control()
        changed = self.intake.sampler.obey(control) if self.intake is not None else {}
        for order, value in changed.items():
            self.notes.note("control", order.removesuffix("_ms"), {order: value})
        if changed and self.plan.leads:
            self.plan.folder.update(**changed)
        stacks = control.get("stacks")
        if isinstance(stacks, dict) and stacks != self._stacks_wanted and self.watch is not None:
            self._stacks_wanted = stacks
            self.notes.note("control", "stacks", stacks)
            self.watch.ask(time.monotonic_ns())
        if self.intake is not None:
            if self.intake.profiling is not None:
                self.intake.profiling.obey(orders(control), self.notes)
            self.intake.hurry(self._attention.paid(control.get("watched")))
        stop = control.get("stop")
        if stop not in (None, False) and self.stop_wanted is None:
            self.stop_wanted = dict(stop) if isinstance(stop, dict) else {}
            self.notes.note("control", "stop", self.stop_wanted)
            self._wake_supervisor()
            by = self.stop_wanted.get("by")
            if self.plan.leads:
                self.plan.folder.update(status="Stopping", **({"stopped_by": by} if by else {}))

    def _look(self) -> None:
        """Look after companions, processes, trainers and the clock."""
        self._watched.roots = [*self.plan.roots, *self.orphans]
        if time.monotonic() - self._began >= START_AFTER_S:
            self._companions.start()
        self._companions.look()
        if self._python is not None:
            self._python.look()
        if self.watch is not None:
            ending = self.stop_wanted is not None
            self.notes.add(*self.watch.look(time.monotonic_ns(), ending=ending))
        drift = self.plan.clock.drift()
        if abs(drift - self._drift) >= _CLOCK_STEP_NS:
            detail = {"moved_ns": drift - self._drift, "from_anchor_ns": drift}
            self.notes.note("clock", "the wall clock moved", detail)
            self._drift = drift

    def _heartbeat(self) -> None:
        """Say that we live, and what is known of the node."""
        if not self._facts:
            return
        missing = [*self._missing, *(entry for one in self._made for entry in one.missing)]
        self._facts["missing"] = [{"what": what, "why": why} for what, why in dict(missing).items()]
        self._facts["heartbeat"] = self.plan.clock.time_ns()
        self.plan.folder.write_node(self.plan.node, self._facts)
        drain = None if self.intake is None else self.intake.drain
        if self.plan.leads and drain is not None and drain.facts.framework and self._framework is None:
            self._framework = drain.facts.framework
            self.plan.folder.update(framework=self._framework)

    def _final(self, ended: Ended) -> None:
        """Take what is left of everything, say how it ended, and close."""
        intake, attached = self.intake, self.plan.attached
        self._duty("companions", self._companions.stop)
        if intake is None:
            return
        if self._python is not None:
            self._duty("python samples", self._python.look)
        if not attached:
            self._duty("linger", lambda: intake.linger(self._hurry))
        self._duty("last records", lambda: intake.finish(attached=attached))
        self._duty("judge", lambda: self._judge(ended))
        for name, duty in (("node", self._heartbeat), ("samples", intake.samples), ("events", intake.events)):
            self._duty(name, duty)
        self._duty("close", lambda: intake.close(self._hurry))

    def _judge(self, ended: Ended) -> None:
        """Say how the job ended."""
        if ended.exit_code is not None:
            detail = {"exit_code": ended.exit_code, "signal": ended.signal, "role": "command"}
            self.notes.note("exit", "command", detail)
        if self.watch is not None:
            well = ended.exit_code in (0, None) and not self.asked and self.stop_wanted is None
            self.notes.add(*self.watch.end(time.monotonic_ns(), well=well))
        if self.stopped:
            return
        drain, limit = None if self.intake is None else self.intake.drain, self._cgroup.memory_limit()
        self.failure = failure(
            ended,
            [] if drain is None else [one for one in drain.processes.values() if not one.is_worker],
            oom=oom_kill(
                self._oom_before,
                OomCounters.read(self._cgroup),
                peak=self._cgroup.memory_peak() if limit else None,
                limit=limit,
            ),
            hanging=self.watch is not None and self.watch.hanging,
            clock_offset=self.plan.clock.offset,
            rank_of=(lambda process: -1) if drain is None else drain.ranks.of,
        )
        if self.failure is not None and self.failure["kind"] == "oom":
            rank = -1 if self.failure["rank"] is None else self.failure["rank"]
            self.notes.note("oom", self.failure["certainty"], self.failure, rank=rank)
