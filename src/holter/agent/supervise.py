"""The agent: starts the command, passes signals on, waits for its end, and keeps its exit code."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holter.agent import procfs
from holter.agent.clock import Clock
from holter.agent.command import CommandNotFound, environment, find_command, spawn
from holter.agent.deaths import Ended
from holter.agent.hangs import HangLimits
from holter.agent.scribe import Plan, Scribe
from holter.agent.signals import Message, Signals, adopt_orphans
from holter.schema.metrics import INTERVALS_MS

if TYPE_CHECKING:
    from holter.store.job import JobFolder

INTERRUPT_GRACE_S = 10.0
"""A second Ctrl-C within this time of the first kills the job."""
STOP_GRACE_S = 30.0
"""Time between SIGTERM and SIGKILL when the job is stopped on request."""
_FINISH_S = 90.0
_IDLE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the job went, as the agent saw it."""

    exit_code: int
    """The command's own; 128 + number for a signal."""
    signal: int | None
    failure: dict[str, Any] | None
    status: str
    """Completed, Failed or Stopped."""
    started: int
    """Wall ns."""
    ended: int
    faults: list[dict[str, Any]] = field(default_factory=list)
    """Faults of the agent and of the recorder: where, error, count."""
    dropped: int = 0
    """Records the recorder had to drop, and rows and readings the agent had to."""
    records: int = 0
    processes: list[dict[str, Any]] = field(default_factory=list)
    workers_seen: int = 0
    agent_cpu_s: float = 0.0
    recorder_cost_ns: int = 0
    bytes_written: int = 0

    @property
    def duration_s(self) -> float:
        """How long the command ran."""
        return (self.ended - self.started) / 1e9


class Agent:
    """Supervises one command on one node."""

    def __init__(
        self,
        folder: JobFolder,
        command: list[str],
        *,
        node: str,
        interval_ms: int,
        spool_parent: Path | None = None,
        companions: Sequence[list[str]] = (),
        hang: HangLimits | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Check everything that can be checked before something starts.

        Args:
            folder: The job in the store.
            command: What to run, and its arguments.
            node: Name of this machine in the store.
            interval_ms: Sampling interval; one of 100, 200, 500, 1000, 5000, 60000.
            spool_parent: Local folder in which the spool is made; the system's temporary folder by default.
            companions: Commands of ours to run beside the job once it has lived 5 s.
            hang: When a silent rank counts as hanging.
            variables: Environment of the command; ours by default.

        Raises:
            CommandNotFound: There is no such command, or it cannot be executed.
            ValueError: The interval is none of the valid ones.
        """
        if interval_ms not in INTERVALS_MS:
            valid = ", ".join(str(interval) for interval in INTERVALS_MS)
            raise ValueError(f"interval {interval_ms} ms is not possible; valid are, in ms: {valid}")
        self.executable = find_command(command)
        self.folder = folder
        self.command = list(command)
        self.node = node
        self.interval_ms = interval_ms
        self.companions = [list(one) for one in companions]
        self.hang = hang or HangLimits()
        self._spool_parent = spool_parent
        self._variables = variables
        self._stop_at: float | None = None
        self._interrupted: float | None = None
        self._asked: set[int] = set()
        """Orphans that were asked to end."""
        self._spool: Path | None = None
        self._spool_fault: str | None = None

    def run(self) -> Outcome:
        """Run the command to its end; whatever fails on our side, its exit code is kept.

        Raises:
            CommandNotFound: It could not be started after all.
        """
        clock = Clock.now()
        self._make_spool()
        variables = environment(self._spool, self._variables)
        children = set(procfs.tree([os.getpid()])) - {os.getpid()}
        with Signals() as signals:
            adopt_orphans(True)
            started = clock.time_ns()
            try:
                pid = spawn(self.executable, self.command, variables, mask=signals.mask)
            except OSError as error:
                self._remove_spool()
                raise CommandNotFound(f"cannot run {self.command[0]!r}: {error.strerror}") from error
            plan = Plan(
                folder=self.folder,
                node=self.node,
                interval_ms=self.interval_ms,
                spool=self._spool,
                clock=clock,
                limits=self.hang,
                roots=[pid],
                companions=self.companions,
                environment=variables,
            )
            scribe = Scribe(plan, wake=signals.wake)
            if self._spool_fault:
                scribe.fault("spool", self._spool_fault)
            scribe.start()
            try:
                ended = self._supervise(pid, signals, scribe, children)
            except Exception as error:
                # The command is all that counts now.
                scribe.fault("supervise", error)
                ended = _wait_for(pid)
            at = clock.time_ns()
            scribe.finish(ended)
            self._wait_for_scribe(scribe, signals)
            adopt_orphans(False)
        self._remove_spool()
        return self._outcome(scribe, ended, started, at)

    def _supervise(self, pid: int, signals: Signals, scribe: Scribe, others: set[int]) -> Ended:
        """Wait for the end of the command; pass signals on and obey a stop meanwhile."""
        ended: Ended | None = None
        while True:
            for message in signals.wait(self._patience()):
                self._heed(message, pid, scribe, alive=ended is None)
            if ended is None and (status := _reap(pid)) is not None:
                ended = status
            self._reap_orphans(pid, scribe, others)
            if scribe.stop_wanted is not None and self._stop_at is None:
                self._stop(pid, scribe)
            remaining = (
                self._remaining(pid, scribe) if ended is not None and self._stop_at is not None else set()
            )
            if ended is not None and not remaining:
                return ended
            if self._stop_at is not None and time.monotonic() >= self._stop_at:
                self.kill(pid, scribe)
                self._stop_at = time.monotonic() + 1.0

    def _patience(self) -> float:
        return _IDLE_S if self._stop_at is None else max(0.01, min(0.1, self._stop_at - time.monotonic()))

    def _heed(self, message: Message, pid: int, scribe: Scribe, *, alive: bool) -> None:
        """Pass a signal on, unless the terminal gave it to the command already."""
        number = message.number
        if number != signal.SIGCONT:
            name = signal.Signals(number).name
            scribe.note(
                "signal", name, {"number": number, "from": "terminal" if message.from_terminal else "process"}
            )
        if alive and not message.from_terminal:
            _send(pid, number)
        if number == signal.SIGTSTP:
            os.kill(os.getpid(), signal.SIGSTOP)  # like the command, until the shell continues both
        if number == signal.SIGINT:
            now = time.monotonic()
            if self._interrupted is not None and now - self._interrupted < INTERRUPT_GRACE_S:
                self.kill(pid, scribe)
            self._interrupted = now

    def _stop(self, pid: int, scribe: Scribe) -> None:
        """Ask the command to end; what is left of the job after the grace is killed."""
        wanted = (scribe.stop_wanted or {}).get("grace_s")
        grace = float(wanted) if isinstance(wanted, int | float) and wanted >= 0 else STOP_GRACE_S
        self._stop_at = time.monotonic() + grace
        _send(pid, signal.SIGTERM)

    def _remaining(self, pid: int, scribe: Scribe) -> set[int]:
        """Return what still runs of a job that is being stopped, after asking it to end too."""
        left = {one for one, stat in procfs.tree(scribe.orphans).items() if stat.alive and one != pid}
        for orphan in left - self._asked:
            _send(orphan, signal.SIGTERM)
        self._asked |= left
        return left

    def kill(self, pid: int, scribe: Scribe) -> None:
        """Kill the command and all that descends from it."""
        for _ in range(3):  # what is started meanwhile is found in the next turn
            living = [one for one, stat in procfs.tree([pid, *scribe.orphans]).items() if stat.alive]
            for one in living:
                _send(one, signal.SIGKILL)
            if not living:
                break

    def _reap_orphans(self, pid: int, scribe: Scribe, others: set[int]) -> None:
        """Adopt processes of the job whose parent has ended, and let those go that have ended themselves."""
        mine = {pid, *others}
        for one, stat in _children():
            if one in mine or one in scribe.companion_pids():
                continue
            if stat.alive:
                if one not in scribe.orphans:
                    scribe.orphans.append(one)
            else:
                _reap(one)

    def _wait_for_scribe(self, scribe: Scribe, signals: Signals) -> None:
        """Wait until all is written; who presses Ctrl-C now does not want to wait."""
        deadline = time.monotonic() + _FINISH_S
        while scribe.is_alive() and time.monotonic() < deadline:
            for message in signals.wait(0.02):
                if message.number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
                    scribe.hurry()
                    deadline = min(deadline, time.monotonic() + 10.0)
        if scribe.is_alive():
            scribe.fault("store", f"not all was written within {_FINISH_S:.0f} s of the end")

    def _outcome(self, scribe: Scribe, ended: Ended, started: int, at: int) -> Outcome:
        status = "Stopped" if scribe.stopped else "Completed" if ended.exit_code == 0 else "Failed"
        outcome = outcome_of(scribe, ended, started, at, status)
        try:
            self.folder.update(
                status=status,
                start=started,
                end=at,
                exit_code=outcome.exit_code,
                signal=outcome.signal,
                failure=outcome.failure,
            )
        except Exception as error:
            scribe.fault("manifest", error)
        return outcome

    def _make_spool(self) -> None:
        """Make the spool; without one the command runs all the same, and only the machine is recorded."""
        try:
            self._spool = Path(tempfile.mkdtemp(prefix="holter-", dir=self._spool_parent))
        except OSError as error:
            self._spool_fault = f"no spool, so nothing of the training is recorded: {error}"

    def _remove_spool(self) -> None:
        if self._spool is not None:
            shutil.rmtree(self._spool, ignore_errors=True)


def outcome_of(scribe: Scribe, ended: Ended, started: int, at: int, status: str) -> Outcome:
    """Put together what the scribe knows at the end."""
    drain, writer, sampler = scribe.drain, scribe.writer, scribe.sampler
    lost = (0 if writer is None else sum(writer.dropped.values())) + (
        0 if sampler is None else sampler.dropped
    )
    return Outcome(
        exit_code=1 if ended.exit_code is None else ended.exit_code,
        signal=ended.signal,
        failure=scribe.failure,
        status=status,
        started=started,
        ended=at,
        faults=[*scribe.faults, *([] if drain is None else drain.facts.faults)],
        dropped=lost + (0 if drain is None else drain.dropped),
        records=0 if drain is None else drain.records,
        processes=[] if drain is None else [one.summary() for one in drain.trainers()],
        workers_seen=0 if drain is None else drain.workers_seen,
        agent_cpu_s=scribe.cpu_s,
        recorder_cost_ns=0 if drain is None else drain.cost_ns,
        bytes_written=0 if writer is None else writer.bytes_written,
    )


def _reap(pid: int) -> Ended | None:
    """Return how a child ended; None while it runs."""
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return Ended(None)
    return None if ended == 0 else _ended(status)


def _wait_for(pid: int) -> Ended:
    while True:
        try:
            return _ended(os.waitpid(pid, 0)[1])
        except InterruptedError:
            continue
        except ChildProcessError:
            return Ended(None)


def _ended(status: int) -> Ended:
    return Ended(None, os.WTERMSIG(status)) if os.WIFSIGNALED(status) else Ended(os.WEXITSTATUS(status))


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def _children() -> list[tuple[int, procfs.Stat]]:
    """Return our own children, without looking at every process there is."""
    found = []
    try:
        tasks = os.listdir("/proc/self/task")
        for task in tasks:
            with open(f"/proc/self/task/{task}/children") as file:
                pids = [int(word) for word in file.read().split()]
            found += [(pid, stat) for pid in pids if (stat := procfs.stat(pid)) is not None]
    except OSError:
        return []
    return found
