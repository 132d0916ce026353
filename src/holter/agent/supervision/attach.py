"""Record a process that runs already, which asked for it itself, until it ends or says that it is enough."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from typing import TYPE_CHECKING

from holter.agent.drain.clock import Clock
from holter.agent.drain.writing_thread import Plan, Scribe
from holter.agent.machine import procfs
from holter.agent.supervision import ownership
from holter.agent.supervision.deaths import Ended
from holter.agent.supervision.hangs import HangLimits
from holter.agent.supervision.outcome import Outcome, all_stored, outcome_of
from holter.agent.supervision.signals import Signals
from holter.agent.supervision.supervise import STOP_GRACE_S

if TYPE_CHECKING:
    from pathlib import Path

    from holter.store.job import JobFolder

READY = "agent.ready"
"""A file in the spool that tells the process that its agent listens."""
_LOOK_S = 0.5
_ENOUGH = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class NoProcess(LookupError):  # noqa: N818
    """The process to record is not there."""


def attach(
    folder: JobFolder, pid: int, spool: Path, *, node: str, interval_ms: int, hang: HangLimits | None = None
) -> Outcome:
    """Record process `pid` and its children until it ends, closes its recording, or we get SIGTERM.

    Args:
        folder: The job in the store.
        pid: The process.
        spool: The spool it writes.
        node: Name of this machine in the store.
        interval_ms: Sampling interval.
        hang: When a silent rank counts as hanging.

    Raises:
        NoProcess: There is no such process.
    """
    clock = Clock.now()
    stat = procfs.stat(pid)
    if stat is None or not stat.alive:
        raise NoProcess(f"there is no process {pid}")
    owner, lock = ownership.own(spool, folder.url, node, clock)
    descriptor = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else -1
    with Signals(_ENOUGH) as signals:
        plan = Plan(
            folder=folder,
            node=node,
            interval_ms=interval_ms,
            spool=spool,
            clock=clock,
            limits=hang or HangLimits(),
            roots=[pid],
            environment=dict(os.environ),
            attached=True,
            facts=owner.facts(spool),
        )
        scribe = Scribe(plan, wake=signals.wake)
        started = clock.time_ns()
        scribe.start()
        (spool / READY).touch()
        _follow(pid, stat.started, descriptor, signals, scribe)
        at = clock.time_ns()
        scribe.finish(Ended(None))
        while scribe.is_alive():
            signals.wait(0.05)
    if descriptor >= 0:
        os.close(descriptor)
    if kept := not all_stored(scribe):
        _tell_kept(spool, folder)
    elif procfs.stat(pid) is None:
        shutil.rmtree(spool, ignore_errors=True)
    else:  # the process that goes on removes its spool itself, once nobody claims it
        (spool / ownership.DOCUMENT).unlink(missing_ok=True)
    outcome = _close(folder, scribe, started, at, spool if kept else None)
    os.close(lock)
    return outcome


def _tell_kept(spool: Path, folder: JobFolder) -> None:
    print(
        f"holter: the store does not hold all records; they are kept in {spool}."
        f" Once it can be written: holter recover {folder.url}",
        file=sys.stderr,
    )


def _follow(pid: int, started: int, descriptor: int, signals: Signals, scribe: Scribe) -> None:
    """Return when the process has ended, has closed its recording, or somebody has had enough."""
    kill_at: float | None = None
    while True:
        # A process that has ended is readable at once; without such a descriptor it is looked for.
        if any(message.number in _ENOUGH for message in signals.wait(_LOOK_S, descriptor)):
            return
        stat = procfs.stat(pid)
        if stat is None or not stat.alive or stat.started != started:
            return
        if _closed(scribe, pid):
            return
        if scribe.stop_wanted is not None and kill_at is None:
            grace = scribe.stop_wanted.get("grace_s")
            kill_at = time.monotonic() + (
                float(grace) if isinstance(grace, int | float) and grace >= 0 else STOP_GRACE_S
            )
            os.kill(pid, signal.SIGTERM)
        if kill_at is not None and time.monotonic() >= kill_at:
            os.kill(pid, signal.SIGKILL)
            kill_at = time.monotonic() + STOP_GRACE_S


def _closed(scribe: Scribe, pid: int) -> bool:
    """Whether the process has written that it records no more."""
    drain = None if scribe.intake is None else scribe.intake.drain
    if drain is None:
        return False
    return any(one.pid == pid and one.end is not None for one in list(drain.processes.values()))


def _close(folder: JobFolder, scribe: Scribe, started: int, at: int, spool: Path | None) -> Outcome:
    """Write how it ended: nobody knows the exit code of a process that is not one's child."""
    outcome = outcome_of(scribe, Ended(None), started, at, spool=spool)
    folder.update(status=outcome.status, end=at, exit_code=None, signal=None, failure=outcome.failure)
    return outcome
