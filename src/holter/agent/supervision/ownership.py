"""Records the job of a spool and the agent that works on it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import stat as modes
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from holter.agent.drain.clock import Clock
from holter.agent.machine import procfs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holter.agent.supervision.outcome import Outcome
    from holter.store.documents import Document

PREFIX = "holter-"
"""Prefix of the names of spools."""
DOCUMENT = "agent.json"
_LOCK = "agent.lock"
_SLACK_NS = 2_000_000_000
"""How far the start of a process may lie behind the first sign of life it gave itself."""


@dataclass(frozen=True)
class Owner:
    """The agent that made a spool, as recorded in the spool."""

    job: str
    """URL of the job."""
    node: str
    host: str
    boot: str
    """Id of the machine's boot; processes of another one are gone."""
    pid: int
    started: int
    """Start of the agent, clock ticks after boot."""
    start: int
    """When the command was started, wall ns."""
    clock: Clock
    several: bool = False
    """Whether other nodes record the job too."""
    command: int | None = None
    """Pid of the command, which may outlive its agent."""
    ended: Document | None = None
    """How the job ended, of an agent that saw the end but could not store all; None of a killed one."""

    @property
    def name(self) -> str:
        """The job's name."""
        return self.job.rstrip("/").rpartition("/")[2]

    def facts(self, spool: Path) -> Document:
        """Return the entries of the node's facts by which other commands find the spool."""
        known = {name: getattr(self, name) for name in ("host", "boot", "pid", "started")}
        return {"spool": {"path": str(spool), **known}}


class SpoolBusy(Exception):  # noqa: N818
    """Another process works on this spool now; the text names it."""

    def __init__(self, text: str, *, agent_runs: bool = False) -> None:
        super().__init__(text)
        self.agent_runs = agent_runs


def boot_id() -> str:
    """Return the id of this boot of this machine; empty where the kernel does not say."""
    return procfs.file_text(procfs.PROC / "sys/kernel/random/boot_id")


def own(spool: Path, job: str, node: str, clock: Clock, *, several: bool = False) -> tuple[Owner, int]:
    """Write the owner of a spool; return it, and the lock that shows that it lives. Raises `OSError`."""
    lock = _locked(spool)
    if lock is None:
        raise OSError(errno.EBUSY, "another agent works on it", str(spool))
    me = procfs.stat(os.getpid())
    started = 0 if me is None else me.started
    place = (os.path.abspath(job) if "://" not in job else job), node, socket.gethostname(), boot_id()
    owner = Owner(*place, os.getpid(), started, clock.time_ns(), clock, several)
    write(spool, owner)
    return owner, lock


def write(spool: Path, owner: Owner) -> None:
    """Put the owner's document in one piece. Raises `OSError`."""
    draft = spool / f".{DOCUMENT}"
    draft.write_text(json.dumps(asdict(owner)))
    draft.replace(spool / DOCUMENT)


def ends(spool: Path, outcome: Outcome) -> None:
    """Write the end of the job next to the records that the store lacks. Raises `OSError`."""
    owner = owner_of(spool)
    if owner is not None:
        write(spool, replace(owner, ended=outcome.ending))


def owner_of(spool: Path) -> Owner | None:
    """Return the agent that made a spool; None for other folders and spools of other users.

    A store that others may write can name any folder: only what this user alone can have written is believed.
    """
    try:
        status = os.lstat(spool)
        if not modes.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            return None
        if not spool.name.startswith(PREFIX):
            return None
        document = json.loads((spool / DOCUMENT).read_text())
        return Owner(**{**document, "clock": Clock(**document["clock"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def spools() -> list[Path]:
    """Return all spools of this user in this machine's temporary folders."""
    found = {}
    for folder in (tempfile.gettempdir(), "/tmp", "/var/tmp"):  # noqa: S108 - looked through, not written
        with contextlib.suppress(OSError):
            for entry in os.scandir(folder):
                if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False):
                    found[os.path.realpath(entry.path)] = Path(entry.path)
    return [path for path in found.values() if owner_of(path) is not None]


def named(nodes: Mapping[str, Document]) -> list[Path]:
    """Return the spools on this machine that a job's nodes name."""
    found = []
    for facts in nodes.values():
        spool = facts.get("spool")
        if isinstance(spool, dict) and spool.get("host") == socket.gethostname():
            found.append(Path(str(spool.get("path"))))
    return found


@contextlib.contextmanager
def held(spool: Path, owner: Owner) -> Iterator[None]:
    """Hold a spool whose agent is dead; raises `SpoolBusy` while anybody works on it or writes it."""
    if owner.host != socket.gethostname():
        raise SpoolBusy(f"it is recorded on host {owner.host}", agent_runs=True)
    lock = _locked(spool)
    if lock is None:
        raise SpoolBusy(
            f"its agent (process {owner.pid}) runs, or another command recovers it", agent_runs=True
        )
    try:
        if writing := writers(spool, owner):
            pids = ", ".join(map(str, writing))
            raise SpoolBusy(f"its agent is gone, but the training still runs (process {pids})")
        yield
    finally:
        os.close(lock)


def writers(spool: Path, owner: Owner) -> list[int]:
    """Return the processes that may still write a spool: the command, and those that recorded and live."""
    if owner.boot != boot_id():
        return []
    since = {owner.command: owner.start} if owner.command else {}
    for name in os.listdir(spool):
        key, _, kind = name.partition(".")
        pid, _, began = key.partition("-")
        if kind == "journal" and pid.isdecimal() and began.isdecimal():
            since[int(pid)] = owner.clock.to_wall(int(began))
    return sorted(pid for pid, began in since.items() if _lives(pid, owner, began))


def _lives(pid: int, owner: Owner, began: int) -> bool:
    """Whether a process runs that was there at `began`, wall ns: a later one has only got the same pid."""
    found = procfs.stat(pid)
    mine = procfs.stat(os.getpid())
    if found is None or not found.alive or mine is None:
        return False
    ticks_ns = 1_000_000_000 // procfs.TICKS
    return found.started * ticks_ns <= _since_boot(owner, began) + _SLACK_NS


def _since_boot(owner: Owner, wall: int) -> int:
    """Return a wall time as nanoseconds since boot, by the clock of the owner."""
    asleep = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
    return wall - owner.clock.offset + asleep


def _locked(spool: Path) -> int | None:
    """Lock a spool until the descriptor is closed, or its process ends; None while another holds it."""
    descriptor = os.open(spool / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return None
        raise
    return descriptor
