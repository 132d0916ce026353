"""The agent's writing thread: spool and samples go into the store, and the job is looked after meanwhile."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holter.agent.clock import Clock
from holter.agent.collectors import Watched
from holter.agent.companions import START_AFTER_S, Companions
from holter.agent.deaths import Ended
from holter.agent.hangs import HangLimits
from holter.agent.journal import Event

if TYPE_CHECKING:
    from holter.agent.drain import Drain
    from holter.agent.sampling import Sampler
    from holter.agent.watch import Watch
    from holter.store.job import JobFolder
    from holter.store.writer import Writer

POLL_S = 0.5
LOOK_S = 1.0
HEARTBEAT_S = 4.0
NICE = 10
_CLOCK_STEP_NS = 100_000_000
_FAILURES = 20
"""A duty that fails so many times in a row is given up."""
_LINGER_TRAINER_S = 5.0
_LINGER_WORKER_S = 0.5
_FINAL_S = 60.0
_CLOSE_S = 5.0


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
    environment: dict[str, str] = field(default_factory=dict)
    attached: bool = False


class Scribe(threading.Thread):
    """Does all that may be slow, so that the thread that supervises never waits for the store."""

    def __init__(self, plan: Plan, *, wake: Callable[[], None]) -> None:
        super().__init__(name="holter-scribe", daemon=True)
        self.plan = plan
        self.faults: list[dict[str, Any]] = []
        self.stop_wanted: dict[str, Any] | None = None
        """What `control.json` says about stopping."""
        self.failure: dict[str, Any] | None = None
        self.stopped = False
        """The job was ended on request."""
        self.drain: Drain | None = None
        self.writer: Writer | None = None
        self.sampler: Sampler | None = None
        self.watch: Watch | None = None
        self.orphans: list[int] = []
        """Processes of the job that outlived the command; the supervisor keeps it."""
        self._cpu_before = time.process_time()
        self._watched = Watched(roots=list(plan.roots))
        log = None if plan.spool is None else plan.spool / "companions.log"
        self._companions = Companions(plan.companions, log, self._watched, on_fault=self.fault)
        self._wake_supervisor = wake
        self._alarm = threading.Event()
        self._ended: Ended | None = None
        self._hurry = False
        self._events: list[Event] = []
        self._failures: dict[str, int] = {}
        self._drift = 0
        self._framework = False
        self._facts: dict[str, Any] = {}
        self._sampling: threading.Thread | None = None
        self._began = time.monotonic()

    # What the supervisor calls.

    def note(self, kind: str, name: str, detail: dict[str, Any]) -> None:
        """Put down an event that concerns the whole job."""
        self._events.append(Event(self.plan.clock.time_ns(), -1, kind, name, detail))

    def fault(self, where: str, error: object) -> None:
        """Put down a fault of ours; the same one again is only counted."""
        text = f"{type(error).__name__}: {error}" if isinstance(error, Exception) else str(error)
        for known in self.faults:
            if known["where"] == where and known["error"] == text:
                known["count"] += 1
                return
        if len(self.faults) < 100:
            self.faults.append({"where": where, "error": text, "count": 1})
            self.note("fault", where, {"where": f"agent: {where}", "error": text, "count": 1})

    def companion_pids(self) -> list[int]:
        """Return our own processes, which are no orphans of the job."""
        return list(self._watched.companions)

    @property
    def cpu_s(self) -> float:
        """CPU time that we and our companions used since the job began."""
        return time.process_time() - self._cpu_before + self._companions.cpu_s

    def finish(self, ended: Ended) -> None:
        """Say that the command has ended: take what is left, write it, and end."""
        self._ended = ended
        self._alarm.set()

    def hurry(self) -> None:
        """Wait for nothing more."""
        self._hurry = True
        self._alarm.set()

    # The thread.

    def run(self) -> None:
        """Work until `finish`; whatever fails here concerns neither the command nor the other duties."""
        try:
            # On Linux this holds for the calling thread, and for what it starts.
            os.setpriority(os.PRIO_PROCESS, 0, max(os.getpriority(os.PRIO_PROCESS, 0), NICE))
        except OSError as error:
            self.fault("priority", error)
        self._duty("open", self._open)
        due: dict[str, float] = {}
        duties = (
            ("control", LOOK_S, self._control),
            ("watch", LOOK_S, self._look),
            ("heartbeat", HEARTBEAT_S, self._heartbeat),
        )
        while self._ended is None:
            more = self._duty("drain", self._poll)
            now = time.monotonic()
            for name, period, duty in duties:
                if now >= due.get(name, 0.0):
                    due[name] = now + period
                    self._duty(name, duty)
            self._duty("samples", self._samples)
            self._duty("events", self._write_events)
            if self._ended is None and not more:
                self._alarm.wait(POLL_S)
                self._alarm.clear()
        self._duty("final", self._final)

    def _duty(self, name: str, duty: Callable[[], Any]) -> Any:
        if self._failures.get(name, 0) >= _FAILURES:
            return None
        try:
            result = duty()
        except Exception as error:
            self._failures[name] = self._failures.get(name, 0) + 1
            self.fault(name, error)
            return None
        self._failures[name] = 0
        return result

    def _open(self) -> None:
        """Make everything; imported here, beside the command that runs already."""
        from holter.agent.cgroups import Cgroup
        from holter.agent.collectors import Machine, collectors
        from holter.agent.deaths import OomCounters
        from holter.agent.node import node_facts
        from holter.agent.sampling import Sampler

        plan = self.plan
        local = getattr(plan.folder.place, "path", None)
        self._machine = Machine(
            store=local if isinstance(local, Path) else None,
            watched=self._watched,
            environment=plan.environment,
        )
        self._cgroup = Cgroup.of()
        self._oom_before = OomCounters.read(self._cgroup)
        made, missing = collectors(self._machine)
        self._made = made
        self._missing = missing
        self.sampler = Sampler(made, plan.clock, plan.interval_ms, on_fault=self.fault)
        self._sampling = threading.Thread(target=self.sampler.run, name="holter-sampler", daemon=True)
        self._sampling.start()
        self._facts = node_facts(self._machine, made, missing, plan.clock)
        self._open_store()

    def _open_store(self) -> None:
        from holter.agent.drain import Drain
        from holter.agent.watch import Watch
        from holter.store.writer import Writer

        self.writer = Writer(self.plan.folder, self.plan.node)
        if self.plan.spool is not None:
            self.drain = Drain(self.plan.spool, self.plan.clock)
            self.watch = Watch(self.drain, self.plan.limits)

    def _poll(self) -> bool:
        """Drain once; return whether more is waiting."""
        return self._drained(final=False)

    def _drained(self, *, final: bool) -> bool:
        if self.drain is None or self.writer is None:
            return False
        batch = self.drain.poll(final=final)
        self._events += batch.events
        if batch.spans:
            self.writer.append("spans", batch.spans)
        if batch.scalars:
            self.writer.append("scalars", batch.scalars)
        self._watched.roles = {one.pid: one.role for one in self.drain.alive()}
        return batch.more

    def _samples(self) -> None:
        if self.sampler is not None and self.writer is not None:
            columns = self.sampler.take()
            if columns["time"]:
                self.writer.append("samples", columns)

    def _write_events(self) -> None:
        if self.writer is None:
            return
        events, self._events = self._events, []
        if events:
            self.writer.append(
                "events",
                {
                    "time": [event.time for event in events],
                    "rank": [event.rank for event in events],
                    "kind": [event.kind for event in events],
                    "name": [event.name for event in events],
                    "detail": [json.dumps(event.detail, default=str) for event in events],
                },
            )
        self.writer.poll()

    def _control(self) -> None:
        """Obey `control.json`: stop, or another interval."""
        control = self.plan.folder.control()
        wanted = control.get("interval_ms")
        if self.sampler is not None and isinstance(wanted, int) and wanted != self.sampler.interval_ms:
            self.sampler.interval_ms = wanted
            self.note("control", "interval", {"interval_ms": wanted})
            self.plan.folder.update(interval_ms=wanted)
        stop = control.get("stop")
        if stop not in (None, False) and self.stop_wanted is None:
            self.stop_wanted = dict(stop) if isinstance(stop, dict) else {}
            self.stopped = True
            self.note("control", "stop", self.stop_wanted)
            self._wake_supervisor()
            self.plan.folder.update(status="Stopping")

    def _look(self) -> None:
        """Look after companions, processes, trainers and the clock."""
        self._watched.roots = [*self.plan.roots, *self.orphans]
        if time.monotonic() - self._began >= START_AFTER_S:
            self._companions.start()
        self._companions.look()
        if self.watch is not None:
            self._events += self.watch.look(time.monotonic_ns(), ending=self.stop_wanted is not None)
        drift = self.plan.clock.drift()
        if abs(drift - self._drift) >= _CLOCK_STEP_NS:
            self.note(
                "clock", "the wall clock moved", {"moved_ns": drift - self._drift, "from_anchor_ns": drift}
            )
            self._drift = drift

    def _heartbeat(self) -> None:
        """Say that we live, and what is known of the node."""
        if not self._facts:
            return
        missing = [*self._missing, *(entry for one in self._made for entry in one.missing)]
        self._facts["missing"] = [{"what": what, "why": why} for what, why in dict(missing).items()]
        self._facts["heartbeat"] = self.plan.clock.time_ns()
        self.plan.folder.write_node(self.plan.node, self._facts)
        if self.drain is not None and self.drain.facts.framework and not self._framework:
            self._framework = True
            self.plan.folder.update(framework=self.drain.facts.framework)

    # The end.

    def _final(self) -> None:
        """Take what is left of everything, say how it ended, and close."""
        if self.drain is None and self.writer is None:
            self._duty("open store", self._open_store)
        for name, duty in (
            ("companions", lambda: self._companions.stop()),
            ("linger", self._linger),
            ("last samples", self._last_samples),
            ("last records", self._last_records),
            ("judge", self._judge),
            ("node", self._heartbeat),
            ("samples", self._samples),
            ("events", self._write_events),
        ):
            self._duty(name, duty)
        if self.writer is not None:
            self._duty("close", self._close)

    def _linger(self) -> None:
        """Give processes that record a moment to end too; one that stays is none of ours to end."""
        begin = time.monotonic()
        while self.drain is not None and not self._hurry and not self.plan.attached:
            self._drained(final=False)
            waited = time.monotonic() - begin
            living = [one for one in self.drain.alive() if one.ticks is not None]
            if not any(
                waited < (_LINGER_TRAINER_S if one.is_trainer else _LINGER_WORKER_S) for one in living
            ):
                break
            self._alarm.wait(0.05)
            self._alarm.clear()

    def _last_samples(self) -> None:
        if self.sampler is not None and self._sampling is not None:
            self.sampler.stop()
            self._sampling.join(2.0)

    def _last_records(self) -> None:
        deadline = time.monotonic() + _FINAL_S
        while self._drained(final=True) and time.monotonic() < deadline:
            pass
        if self.drain is not None:
            staying = [one.pid for one in self.drain.alive()]
            if staying and not self.plan.attached:
                self.note("exit", "processes stay", {"pids": staying, "role": "other", "clean": False})

    def _judge(self) -> None:
        """Say how the job ended."""
        from holter.agent.deaths import OomCounters, failure, oom_kill

        ended = self._ended or Ended(None)
        trainers = [] if self.drain is None else self.drain.trainers()
        after = OomCounters.read(self._cgroup)
        limit = self._cgroup.memory_limit()
        oom = oom_kill(
            self._oom_before, after, peak=self._cgroup.memory_peak() if limit else None, limit=limit
        )
        if ended.code is not None or ended.signal is not None:
            self.note(
                "exit", "command", {"exit_code": ended.exit_code, "signal": ended.signal, "role": "command"}
            )
        if self.stopped:
            return
        self.failure = failure(
            ended,
            trainers,
            oom=oom,
            hanging=self.watch is not None and self.watch.hanging,
            clock_offset=self.plan.clock.offset,
            rank_of=(lambda process: -1) if self.drain is None else self.drain.ranks.of,
        )
        if self.failure is not None and self.failure["kind"] == "oom":
            rank = self.failure["rank"]
            event = Event(
                self.plan.clock.time_ns(),
                -1 if rank is None else rank,
                "oom",
                self.failure["certainty"],
                self.failure,
            )
            self._events.append(event)

    def _close(self) -> None:
        """Write all; a store that cannot be written now is tried a few times."""
        assert self.writer is not None  # noqa: S101 - the caller looked
        deadline = time.monotonic() + _CLOSE_S
        while not self.writer.flush() and time.monotonic() < deadline and not self._hurry:
            self._alarm.wait(0.5)
            self._alarm.clear()
        if self.writer.fault:
            self.fault("store", self.writer.fault)
        self.writer.close()
        for table, rows in self.writer.dropped.items():
            self.fault("store", f"{rows} rows of {table} were lost, because the store could not be written")
