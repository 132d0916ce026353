"""The supervisor starts the command, passes signals on, waits for its end and keeps its exit code."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from holter.agent.drain.clock import Clock
from holter.agent.drain.journal import count_fault
from holter.agent.drain.writer_thread import WriterPlan, WriterThread
from holter.agent.machine import procfs
from holter.agent.supervision import ownership
from holter.agent.supervision.children import children, end_descriptor, kill_trees, reap, send, wait_for
from holter.agent.supervision.command import CommandNotFound, environment, find_command, spawn
from holter.agent.supervision.deaths import Ending
from holter.agent.supervision.hangs import HangLimits
from holter.agent.supervision.outcome import Outcome, all_stored, outcome_of
from holter.agent.supervision.signals import Message, Signals, adopt_orphans
from holter.schema.metrics import INTERVALS_MS
from holter.schema.signals import signal_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from holter.agent.drain.recent import RecentRecords
    from holter.agent.supervision.deaths import Ended
    from holter.agent.supervision.members import Member
    from holter.store.documents import Document
    from holter.store.job import JobFolder

__all__ = ["Agent", "CommandNotFound", "Outcome"]

INTERRUPTED_S = 60.0
"""A job that ends within this time of a Ctrl-C was ended by it."""
INTERRUPT_GRACE_S = 10.0
"""A second Ctrl-C within this time of the first kills the job."""
STOP_GRACE_S = 30.0
"""Time between SIGTERM and SIGKILL when the job is stopped on request."""
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_FINISH_S = 90.0
_IDLE_S = 1.0


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
        told: bytes = b"",
        hang: HangLimits | None = None,
        variables: Mapping[str, str] | None = None,
        member: Member | None = None,
        tell: Callable[[str], None] | None = None,
        recent: RecentRecords | None = None,
        pause: Callable[[], None] | None = None,
    ) -> None:
        """Check all parameters before anything starts.

        Args:
            folder: The job in the store.
            command: The program to run, and its arguments.
            node: Name of this machine in the store.
            interval_ms: Sampling interval; one of 100, 200, 500, 1000, 5000, 60000.
            spool_parent: Local folder for the spool; the system's temporary folder by default.
            companions: Commands of holter that run next to the job after 5 s.
            told: Standard input of each companion.
            hang: Limits of the silence of a rank.
            variables: Environment of the command; the agent's own by default.
            member: This node among several that record the job; None for a single node.
            tell: Prints a line for the user when the job hangs and when it continues; it must not block.
            recent: Is given the newest records, for whoever shows the job while it runs.
            pause: Is called before the terminal stops the job (Ctrl-Z).

        Raises:
            CommandNotFound: There is no such command, or it cannot be executed.
            ValueError: The interval is not valid.
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
        self.told = told
        self.hang = hang or HangLimits()
        self._spool_parent = spool_parent
        self._variables = variables
        self._member = member
        self._tell = tell
        self._recent = recent
        self._pause = pause
        self._stop_at: float | None = None
        self._interrupted: float | None = None
        self._signalled = False
        """Whether a signal asked the job to end."""
        self._orphans: list[int] = []
        """Processes of the job that outlived their parent."""
        self._asked: set[int] = set()
        """Orphans that were asked to end."""
        self._spool: Path | None = None
        self._owner: ownership.Owner | None = None
        self._lock: int | None = None
        self._spool_fault: str | None = None

    def run(self) -> Outcome:
        """Run the command to its end; faults of the agent never change its exit code.

        Raises `CommandNotFound` when it cannot be started after all.
        """
        clock = Clock.now()
        self._make_spool(clock)
        variables = environment(self._spool, self._variables)
        others = {child.pid for child in children()}
        with Signals() as signals:
            adopt_orphans(True)
            started = clock.time_ns()
            try:
                pid = spawn(self.executable, self.command, variables, mask=signals.mask)
            except OSError as error:
                self._clear_spool()
                raise CommandNotFound(f"cannot run {self.command[0]!r}: {error.strerror}") from error
            if self._spool is not None and self._owner is not None:
                with contextlib.suppress(OSError):
                    ownership.write(self._spool, replace(self._owner, command=pid))
            plan = WriterPlan(
                folder=self.folder,
                node=self.node,
                interval_ms=self.interval_ms,
                spool=self._spool,
                clock=clock,
                limits=self.hang,
                roots=[pid],
                companions=self.companions,
                told=self.told,
                environment=variables,
                facts=self._node_facts(),
                leads=self._member is None or self._member.creator,
                tell=self._tell,
                recent=self._recent,
            )
            thread = WriterThread(plan, wake=signals.wake)
            if self._spool_fault:
                thread.event_log.fault("spool", self._spool_fault)
            thread.start()
            try:
                ended = self._supervise(pid, signals, thread, others)
            except Exception as error:
                # The command is all that counts now.
                thread.event_log.fault("supervise", error)
                ended = wait_for(pid)
            at = clock.time_ns()
            thread.finish(Ending(ended, self._signalled, self._interrupted_within(INTERRUPTED_S)))
            self._wait_for_thread(thread, signals)
            adopt_orphans(False)
        if all_stored(thread):
            self._clear_spool()
        outcome = self._outcome(thread, ended, started, at)
        if self._spool is not None:
            with contextlib.suppress(OSError):
                ownership.ends(self._spool, outcome)
        self._release()
        return outcome

    def _node_facts(self) -> Document:
        facts: Document = {}
        if self._member is not None:
            facts = {"status": "InProgress", "creator": self._member.creator}
        if self._spool is not None and self._owner is not None:
            facts |= self._owner.facts(self._spool)
        return facts

    def _supervise(self, pid: int, signals: Signals, thread: WriterThread, others: set[int]) -> Ended:
        """Wait for the end of the command; pass signals on and obey a stop meanwhile."""
        ended: Ended | None = None
        # SIGCHLD alone is not enough: a library's thread that does not block it may be given it, and drop it.
        end_of_command = end_descriptor(pid)
        while True:
            watched = (end_of_command,) if ended is None else ()
            for message in signals.wait(self._patience(), *watched):
                self._heed(message, pid, thread, alive=ended is None)
            if ended is None and (status := reap(pid)) is not None:
                ended = status
                if end_of_command >= 0:
                    os.close(end_of_command)
            self._reap_orphans(pid, thread, others)
            if thread.stop_wanted is not None and self._stop_at is None:
                self._stop(pid, thread)
            remaining = self._remaining(pid) if ended is not None and self._stop_at is not None else set()
            if ended is not None and not remaining:
                return ended
            if self._stop_at is not None and time.monotonic() >= self._stop_at:
                kill_trees([pid, *self._orphans])
                self._stop_at = time.monotonic() + 1.0

    def _patience(self) -> float:
        return _IDLE_S if self._stop_at is None else max(0.01, min(0.1, self._stop_at - time.monotonic()))

    def _heed(self, message: Message, pid: int, thread: WriterThread, *, alive: bool) -> None:
        """Pass a signal on, unless the terminal gave it to the command already."""
        number = message.number
        if number != signal.SIGCONT:
            name = signal_name(number)
            thread.event_log.note(
                "signal", name, {"number": number, "from": "terminal" if message.from_terminal else "process"}
            )
        if alive and not message.from_terminal:
            send(pid, number)
        if number == signal.SIGTSTP:
            if self._pause is not None:
                self._pause()
            os.kill(os.getpid(), signal.SIGSTOP)  # like the command, until the shell continues both
        self._signalled = self._signalled or number in _ENDING
        if number == signal.SIGINT:
            if self._interrupted_within(INTERRUPT_GRACE_S):
                kill_trees([pid, *self._orphans])
            self._interrupted = time.monotonic()

    def _interrupted_within(self, seconds: float) -> bool:
        return self._interrupted is not None and time.monotonic() - self._interrupted < seconds

    def _stop(self, pid: int, thread: WriterThread) -> None:
        """Ask the command to end; what is left of the job after the grace is killed."""
        self._stop_at = time.monotonic() + grace_s(thread.stop_wanted or {})
        send(pid, signal.SIGTERM)

    def _remaining(self, pid: int) -> set[int]:
        """Return what still runs of a job that is being stopped, after asking it to end too."""
        left = {one for one, stat in procfs.tree(self._orphans).items() if stat.alive and one != pid}
        for orphan in left - self._asked:
            send(orphan, signal.SIGTERM)
        self._asked |= left
        return left

    def _reap_orphans(self, pid: int, thread: WriterThread, others: set[int]) -> None:
        """Adopt processes of the job whose parent has ended, and let those go that have ended themselves."""
        mine = {pid, *others, *thread.companion_pids}
        for child in children():
            if child.pid in mine:
                continue
            if not child.alive:
                reap(child.pid)
            elif child.pid not in self._orphans:
                self._orphans.append(child.pid)
                thread.adopt(child.pid)

    def _wait_for_thread(self, thread: WriterThread, signals: Signals) -> None:
        """Wait until all is written; Ctrl-C shortens the wait."""
        deadline = time.monotonic() + _FINISH_S
        while thread.is_alive() and time.monotonic() < deadline:
            for message in signals.wait(0.02):
                if message.number in _ENDING:
                    thread.hurry()
                    deadline = min(deadline, time.monotonic() + 10.0)
        if thread.is_alive():
            thread.event_log.fault("store", f"not all was written within {_FINISH_S:.0f} s of the end")

    def _outcome(self, thread: WriterThread, ended: Ended, started: int, at: int) -> Outcome:
        outcome = outcome_of(thread, ended, started, at, spool=self._spool)
        try:
            if self._member is not None:
                self._member.end(outcome)
                return outcome
            self.folder.update(**outcome.ending)
        except Exception as error:
            # The manifest still says InProgress, so the outcome must carry this fault.
            count_fault(outcome.faults, "manifest", f"{type(error).__name__}: {error}")
        return outcome

    def _make_spool(self, clock: Clock) -> None:
        """Make the spool; without one the command runs all the same, and only the machine is recorded."""
        try:
            self._spool = Path(tempfile.mkdtemp(prefix=ownership.PREFIX, dir=self._spool_parent))
            several = self._member is not None
            self._owner, self._lock = ownership.own(
                self._spool, self.folder.url, self.node, clock, several=several
            )
        except OSError as error:
            if self._spool is not None:
                shutil.rmtree(self._spool, ignore_errors=True)
                self._spool = None
            self._spool_fault = f"no spool, so nothing of the training is recorded: {error}"

    def _clear_spool(self) -> None:
        if self._spool is not None:
            shutil.rmtree(self._spool, ignore_errors=True)
            self._spool = None
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def grace_s(order: Document) -> float:
    """Return the time that an order to stop gives the job between SIGTERM and SIGKILL."""
    wanted = order.get("grace_s")
    return float(wanted) if isinstance(wanted, int | float) and wanted >= 0 else STOP_GRACE_S
