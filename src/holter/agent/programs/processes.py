"""Follows the processes of the command: what they are called, and the CPU, memory and I/O that they used."""

from __future__ import annotations

import os
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from holter.agent.machine import procfs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from holter.store.documents import Document

MOST = 512
"""Processes that are followed; a shell script may start thousands of short ones."""
MOST_TOLD = 16
_PYTHON = re.compile(r"(python|pypy)[\d.]*")
_INTERPRETERS = re.compile(r"(python|pypy|perl|ruby|node|Rscript|julia|lua|php)[\d.]*|(|ba|da|z|k)sh")
_WITH_VALUE = ("-X", "-W", "--check-hash-based-pycs")


@dataclass(slots=True)
class FollowedProcess:
    """One process of the job, as it was when it was last seen."""

    pid: int
    parent: int
    name: str
    """The program, and the script that it interprets; never other arguments."""
    python: bool
    started: int
    cpu_s: float = 0.0
    children_s: float = 0.0
    """CPU time of processes that it has started and that have ended."""
    core_wait_s: float | None = None
    """Time that its main thread was ready to run without a core."""
    threads: int = 0
    rss: int = 0
    """The most, bytes."""
    read_bytes: int | None = None
    written_bytes: int | None = None
    alive: bool = True

    def to_json(self) -> Document:
        """Return what an event holds."""
        found = asdict(self)
        del found["started"]
        return found


class ProcessTree:
    """The command and all that descends from it."""

    def __init__(self, proc: Path = procfs.PROC) -> None:
        self._proc = proc
        self.known: dict[tuple[int, int], FollowedProcess] = {}

    def read(self, roots: Iterable[int], without: Sequence[int]) -> None:
        """Read all processes that live now."""
        found = procfs.tree(roots, self._proc, without=[os.getpid(), *without])
        for one in self.known.values():
            one.alive = False
        for pid, stat in found.items():
            if not stat.alive:
                continue
            key = pid, stat.started
            if key not in self.known and len(self.known) >= MOST:
                continue
            one = self.known.setdefault(key, FollowedProcess(pid, stat.ppid, "", False, stat.started))
            one.name, one.python = self._name(pid)  # a process may become another program
            one.alive, one.cpu_s, one.threads = True, stat.cpu_s, stat.threads
            one.rss = max(one.rss, stat.rss)
            one.children_s = self._waited_for(pid)
            scheduled = procfs.scheduled(self._proc / str(pid))
            one.core_wait_s = None if scheduled is None else scheduled.waiting / 1e9
            counted = procfs.counters_of(self._proc / str(pid) / "io")
            one.read_bytes, one.written_bytes = counted.get("rchar"), counted.get("wchar")

    @property
    def cpu_s(self) -> float:
        """CPU time of all that was seen, and of processes that ended before they were seen."""
        own = sum(one.cpu_s for one in self.known.values())
        waited = sum(one.children_s for one in self.known.values())
        ended = sum(one.cpu_s for one in self.known.values() if not one.alive)
        return own + max(0.0, waited - ended)

    def busiest(self, *, python: bool = False) -> FollowedProcess | None:
        """Return the living process that used most CPU time, with the children that it waited for."""
        living = [one for one in self.known.values() if one.alive and (one.python or not python)]
        return max(living, key=lambda one: one.cpu_s + one.children_s, default=None)

    def told(self) -> list[Document]:
        """Return the processes that used most CPU time, the root first."""
        order = sorted(self.known.values(), key=lambda one: -(one.cpu_s + one.children_s))
        return [one.to_json() for one in order[:MOST_TOLD]]

    def _name(self, pid: int) -> tuple[str, bool]:
        """Return the name of a process, and whether it runs Python."""
        try:
            words = (self._proc / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            words = []
        program = os.path.basename(words[0]) if words and words[0] else ""
        program = program or procfs.file_text(self._proc / str(pid) / "comm")
        return program_name(program, words[1:]), bool(_PYTHON.fullmatch(program))

    def _waited_for(self, pid: int) -> float:
        text = procfs.file_text(self._proc / str(pid) / "stat")
        fields = text[text.rfind(")") + 2 :].split()
        return (int(fields[13]) + int(fields[14])) / procfs.TICKS if len(fields) > 14 else 0.0


def program_name(program: str, arguments: Sequence[str]) -> str:
    """Return a program with the script that it interprets: `python sim.py`, `bash train.sh`, `trainer`."""
    if not _INTERPRETERS.fullmatch(program):
        return program
    words = iter(arguments)
    for word in words:
        if word == "-m" or word == "-c":
            return f"{program} -m {next(words, '')}".rstrip() if word == "-m" else f"{program} -c"
        if word in _WITH_VALUE:
            next(words, None)
        elif word and not word.startswith("-"):
            return f"{program} {os.path.basename(word)}"
    return program
