"""Records a process that was started without holter: from outside, without stopping or changing it."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import resource
import shutil
import signal
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from holter.agent.drain.clock import Clock
from holter.agent.drain.writer_thread import WriterPlan, WriterThread
from holter.agent.machine import procfs
from holter.agent.programs.spied import environment_of
from holter.agent.python_samples import find
from holter.agent.supervision import ownership
from holter.agent.supervision.children import end_descriptor
from holter.agent.supervision.deaths import Ended, Ending
from holter.agent.supervision.hangs import HangLimits
from holter.agent.supervision.outcome import Outcome, outcome_of
from holter.agent.supervision.signals import Signals
from holter.schema.record import ENV_SPOOL

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.store.job import JobFolder

ENDED, DETACHED = "Ended", "Detached"
"""The process ended, and nobody knows with which exit code; holter detached, and the process goes on."""
TARGET = "attached.json"
"""The file in the spool that names the process."""
_LOOK_S = 0.5
_ENOUGH = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_HOLTER = re.compile(r"(^|/)holter$|^holter(\.|$)")


class CannotAttach(Exception):  # noqa: N818 - an answer, not a fault
    """Says in one sentence why a process cannot be recorded."""


@dataclass(frozen=True, slots=True)
class AttachedProcess:
    """A running process."""

    pid: int
    started: int
    """Clock ticks after boot."""
    command: list[str]


def target(pid: int, proc: Path = procfs.PROC) -> AttachedProcess:
    """Return a process that may be recorded; raises `CannotAttach`."""
    stat = procfs.stat(pid, proc)
    if stat is None or not stat.alive:
        raise CannotAttach(f"there is no process {pid}; `pgrep -af python` lists the Python processes")
    command = _command(pid, proc)
    if not command:
        raise CannotAttach(f"process {pid} belongs to the kernel")
    owner, me = os.stat(proc / str(pid)).st_uid, os.geteuid()
    if me not in (0, owner):
        raise CannotAttach(
            f"process {pid} belongs to {_user(owner)}, and you are {_user(me)}; "
            f"run holter as that user: sudo -u {_user(owner)} holter attach {pid}"
        )
    known = procfs.everything(proc)
    if pid == os.getpid() or _is_holter(command):
        raise CannotAttach(f"process {pid} belongs to holter itself; give the process of the training")
    if job := _recorded_as(stat, known, proc):
        raise CannotAttach(f"process {pid} is recorded already, as job {job}; see: holter top {job}")
    return AttachedProcess(pid, stat.started, command)


def lacking(pid: int, proc: Path = procfs.PROC) -> str:
    """Return why no stacks of a process can be sampled, and how to change that; empty if they can."""
    if find() is None:
        return "py-spy is not installed: pip install py-spy"
    try:
        with open(proc / str(pid) / "mem", "rb"):
            return ""
    except PermissionError:
        pass
    except OSError as error:
        return f"the memory of process {pid} cannot be read: {error.strerror}"
    scope = procfs.file_text(proc / "sys/kernel/yama/ptrace_scope")
    if scope not in ("", "0"):
        return (
            f"this machine does not permit reading the memory of process {pid} "
            f"(kernel.yama.ptrace_scope is {scope}): run holter with sudo, or allow it until the next boot: "
            "sudo sysctl kernel.yama.ptrace_scope=0"
        )
    return (
        f"this machine does not permit reading the memory of process {pid}: in a container, "
        "start it with --cap-add SYS_PTRACE; elsewhere run holter with sudo"
    )


def record(
    folder: JobFolder,
    process: AttachedProcess,
    *,
    node: str,
    interval_ms: int,
    seconds: float | None = None,
    begins: Callable[[], None] = lambda: None,
    show: Callable[[WriterThread], None] | None = None,
) -> Outcome:
    """Record until the process ends, a signal comes, `holter stop` is called or `seconds` are over.

    `begins` is called once the process is known to be recorded, so that a second recording is refused.
    `show` is called about twice a second with the thread that records.

    Raises:
        OSError: The local folder for intermediate files cannot be made.
    """
    clock = Clock.now()
    spool = Path(tempfile.mkdtemp(prefix=ownership.PREFIX))
    owner, lock = ownership.own(spool, folder.url, node, clock)
    (spool / TARGET).write_text(json.dumps({"pid": process.pid, "started": process.started}))
    begins()
    descriptor, before_s = end_descriptor(process.pid), _children_s()
    cores = None
    with contextlib.suppress(OSError):  # it has just ended
        cores = frozenset(os.sched_getaffinity(process.pid))
    with Signals(_ENOUGH) as signals:
        plan = WriterPlan(
            folder=folder,
            node=node,
            interval_ms=interval_ms,
            spool=spool,
            clock=clock,
            limits=HangLimits(),
            roots=[process.pid],
            environment=environment_of(process.pid) or dict(os.environ),
            attached=True,
            outside=True,
            cores=cores,
            facts=owner.facts(spool),
        )
        thread = WriterThread(plan, wake=signals.wake)
        started = clock.time_ns()
        thread.start()
        status = _follow(process, descriptor, signals, thread, seconds, show)
        at = clock.time_ns()
        thread.finish(Ending(Ended(None)))
        while thread.is_alive():
            if signals.wait(0.05):
                thread.hurry()
    if descriptor >= 0:
        os.close(descriptor)
    found = outcome_of(thread, Ended(None), started, at)
    # The control group may have seen that the process was killed for memory.
    failure = found.failure if status == ENDED else None
    agent_cpu_s = found.agent_cpu_s + _children_s() - before_s
    outcome = replace(found, status=status, exit_code=0, failure=failure, agent_cpu_s=agent_cpu_s)
    with contextlib.suppress(OSError):  # the card says that the store cannot be written
        folder.update(status=status, start=started, end=at, exit_code=None, signal=None, failure=failure)
    shutil.rmtree(spool, ignore_errors=True)  # the processes wrote nothing into it
    os.close(lock)
    return outcome


def _children_s() -> float:
    """Return the CPU time of processes that this one started and that have ended, such as py-spy."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _follow(
    process: AttachedProcess,
    descriptor: int,
    signals: Signals,
    thread: WriterThread,
    seconds: float | None,
    show: Callable[[WriterThread], None] | None,
) -> str:
    """Wait for the end of the recording; return the job's status."""
    until = None if seconds is None else time.monotonic() + seconds
    while True:
        left = _LOOK_S if until is None else min(_LOOK_S, max(0.0, until - time.monotonic()))
        enough = any(message.number in _ENOUGH for message in signals.wait(left, descriptor))
        stat = procfs.stat(process.pid)
        if stat is None or not stat.alive or stat.started != process.started:
            return ENDED
        # A user or a rule that stops the job ends the recording only: the process is not holter's to end.
        if enough or thread.stop_wanted is not None or (until is not None and time.monotonic() >= until):
            return DETACHED
        if show is not None:
            show(thread)


def _command(pid: int, proc: Path) -> list[str]:
    try:
        words = (proc / str(pid) / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return []
    return [word.decode(errors="replace") for word in words if word or len(words) > 1]


def _is_holter(command: list[str]) -> bool:
    """Return whether a command runs holter: `holter …`, `python -m holter …`, or by `own_command`."""
    program = next((word for word in command[1:3] if not word.startswith("-")), "")
    if len(command) > 4 and command[1:3] == ["-I", "-c"]:
        program = command[4]
    return any(_HOLTER.search(word) for word in (command[0], program))


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def _recorded_as(stat: procfs.Stat, known: dict[int, procfs.Stat], proc: Path) -> str:
    """Return the job that records a process now; empty if none does."""
    ancestors, pid = {stat.pid}, stat.ppid
    while pid in known and pid not in ancestors:
        ancestors.add(pid)
        pid = known[pid].ppid
    given = environment_of(stat.pid, proc).get(ENV_SPOOL, "")
    for spool in ownership.spools():
        owner = ownership.owner_of(spool)
        agent = None if owner is None else procfs.stat(owner.pid, proc)
        if owner is None or agent is None or not agent.alive or agent.started != owner.started:
            continue
        targets = [_pid_in(spool / TARGET), *(int(one.name.partition("-")[0]) for one in _journals(spool))]
        mine = given and os.path.realpath(given) == os.path.realpath(spool)
        if mine or owner.pid in ancestors or ancestors & set(targets):
            return owner.name
    return ""


def _journals(spool: Path) -> list[Path]:
    return [one for one in spool.glob("*.journal") if one.name.partition("-")[0].isdecimal()]


def _pid_in(path: Path) -> int:
    try:
        return int(json.loads(path.read_text())["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return -1
