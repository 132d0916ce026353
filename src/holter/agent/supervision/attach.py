"""Records a running process at its own request until it ends or stops the recording."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from typing import TYPE_CHECKING

from holter.agent.drain.clock import Clock
from holter.agent.drain.writer_thread import WriterPlan, WriterThread
from holter.agent.machine import procfs
from holter.agent.supervision import ownership
from holter.agent.supervision.children import end_descriptor
from holter.agent.supervision.deaths import Ended, Ending
from holter.agent.supervision.hangs import HangLimits
from holter.agent.supervision.outcome import Outcome, all_stored, outcome_of
from holter.agent.supervision.signals import Signals
from holter.agent.supervision.supervise import STOP_GRACE_S, grace_s

if TYPE_CHECKING:
    from pathlib import Path

    from holter.store.job import JobFolder

READY = "agent.ready"
"""The file in the spool that shows the process that its agent is ready."""
_LOOK_S = 0.5
_ENOUGH = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class NoProcess(LookupError):  # noqa: N818
    """The process to record does not exist."""


def attach(
    folder: JobFolder, pid: int, spool: Path, *, node: str, interval_ms: int, hang: HangLimits | None = None
) -> Outcome:
    """Record a process until it ends, closes its recording, or the agent gets SIGTERM. Raises `NoProcess`."""
    clock = Clock.now()
    stat = procfs.stat(pid)
    if stat is None or not stat.alive:
        raise NoProcess(f"there is no process {pid}")
    owner, lock = ownership.own(spool, folder.url, node, clock)
    descriptor = end_descriptor(pid)
    with Signals(_ENOUGH) as signals:
        plan = WriterPlan(
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
        thread = WriterThread(plan, wake=signals.wake)
        started = clock.time_ns()
        thread.start()
        (spool / READY).touch()
        _follow(pid, stat.started, descriptor, signals, thread)
        at = clock.time_ns()
        thread.finish(Ending(Ended(None)))
        while thread.is_alive():
            signals.wait(0.05)
    if descriptor >= 0:
        os.close(descriptor)
    if kept := not all_stored(thread):
        print(
            f"holter: the store does not hold all records; they are kept in {spool}."
            f" Once it can be written: holter recover {folder.url}",
            file=sys.stderr,
        )
    elif procfs.stat(pid) is None:
        shutil.rmtree(spool, ignore_errors=True)
    else:  # the process that goes on removes its spool itself, once nobody claims it
        (spool / ownership.DOCUMENT).unlink(missing_ok=True)
    outcome = outcome_of(thread, Ended(None), started, at, spool=spool if kept else None)
    # The exit code of a process that is not a child is unknown.
    folder.update(status=outcome.status, end=at, exit_code=None, signal=None, failure=outcome.failure)
    os.close(lock)
    return outcome


def _follow(pid: int, started: int, descriptor: int, signals: Signals, thread: WriterThread) -> None:
    """Return when the process has ended or closed its recording, or a signal ends the recording."""
    kill_at: float | None = None
    while True:
        # The descriptor of an ended process is readable at once; without one, /proc is checked.
        if any(message.number in _ENOUGH for message in signals.wait(_LOOK_S, descriptor)):
            return
        stat = procfs.stat(pid)
        if stat is None or not stat.alive or stat.started != started:
            return
        drain = None if thread.pipeline is None else thread.pipeline.drain
        processes = [] if drain is None else list(drain.processes.values())
        if any(one.pid == pid and one.end is not None for one in processes):
            return
        if thread.stop_wanted is not None and kill_at is None:
            kill_at = time.monotonic() + grace_s(thread.stop_wanted)
            os.kill(pid, signal.SIGTERM)
        if kill_at is not None and time.monotonic() >= kill_at:
            os.kill(pid, signal.SIGKILL)
            kill_at = time.monotonic() + STOP_GRACE_S
