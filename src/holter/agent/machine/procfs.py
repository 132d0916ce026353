"""Read processes from /proc: one of them, or all that descend from some."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def file_text(path: Path) -> str:
    """Return the text of a small file of the kernel; empty when it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def counters(path: Path) -> dict[str, int]:
    """Read a file with lines `word number`."""
    pairs = (line.split() for line in file_text(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].lstrip("-").isdigit()}


def counters_of(path: Path) -> dict[str, int]:
    """Read a file with lines `word: number`."""
    pairs = (line.partition(":") for line in file_text(path).splitlines())
    return {name: int(number) for name, _, number in pairs if number.strip().isdigit()}


def meminfo(proc: Path) -> dict[str, int]:
    """Read the sizes in `/proc/meminfo`, in bytes."""
    found = {}
    for line in file_text(proc / "meminfo").splitlines():
        name, *words = re.split(r":?\s+", line.strip())
        if words and words[0].isdigit():
            found[name] = int(words[0]) * (1024 if words[1:] == ["kB"] else 1)
    return found


class Stat(NamedTuple):
    """The fields of `/proc/PID/stat` that the agent uses."""

    pid: int
    ppid: int
    group: int
    state: str
    cpu_s: float
    """User and system time, in seconds."""
    started: int
    """Clock ticks after boot."""
    rss: int
    """Bytes."""
    threads: int

    @property
    def alive(self) -> bool:
        """Whether it still runs; a zombie does not."""
        return self.state not in "ZXx"


def stat(pid: int, proc: Path = PROC) -> Stat | None:
    """Read one process; None for an unknown pid."""
    try:
        with open(f"{proc}/{pid}/stat", "rb") as file:
            data = file.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    # The name may hold blanks and parentheses: the fields begin after the last one that closes.
    fields = data[data.rfind(b")") + 2 :].split()
    if len(fields) < 22:
        return None
    return Stat(
        pid=pid,
        ppid=int(fields[1]),
        group=int(fields[2]),
        state=fields[0].decode(),
        cpu_s=(int(fields[11]) + int(fields[12])) / TICKS,
        started=int(fields[19]),
        rss=int(fields[21]) * PAGE,
        threads=int(fields[17]),
    )


def open_files(pid: int, proc: Path = PROC) -> int | None:
    """Count the open files of a process; None where they cannot be read."""
    try:
        # Since Linux 6.2 the size of the folder is their number.
        return os.stat(f"{proc}/{pid}/fd").st_size or len(os.listdir(f"{proc}/{pid}/fd"))
    except OSError:
        return None


def catches(pid: int, number: int, proc: Path = PROC) -> bool:
    """Tell whether a process handles a signal, so that it does not die of it."""
    try:
        with open(f"{proc}/{pid}/status", "rb") as file:
            masks = [line.split()[1] for line in file if line.startswith(b"SigCgt:")]
    except OSError:
        return False
    return bool(masks) and bool(int(masks[0], 16) >> (number - 1) & 1)


def everything(proc: Path = PROC) -> dict[int, Stat]:
    """Read all processes that can be seen."""
    found = {}
    for name in os.listdir(proc):
        if name.isdigit() and (one := stat(int(name), proc)) is not None:
            found[one.pid] = one
    return found


def tree(
    roots: Iterable[int],
    proc: Path = PROC,
    *,
    without: Iterable[int] = (),
    known: Mapping[int, Stat] | None = None,
) -> dict[int, Stat]:
    """Return the processes `roots` and all that descend from them, but not `without` and their own.

    `known` are all processes, where they have just been read.
    """
    known = everything(proc) if known is None else known
    children: dict[int, list[int]] = {}
    for one in known.values():
        children.setdefault(one.ppid, []).append(one.pid)
    found: dict[int, Stat] = {}
    skipped = set(without)
    waiting = [pid for pid in roots if pid in known]
    while waiting:
        pid = waiting.pop()
        if pid in found or pid in skipped:
            continue
        found[pid] = known[pid]
        waiting.extend(children.get(pid, ()))
    return found


class Scheduled(NamedTuple):
    """What a thread has used so far, ns."""

    running: int
    waiting: int
    """Ready to run, without a core."""


def scheduled(task: Path) -> Scheduled | None:
    """Return the times of a task's folder, `PID` or `PID/task/TID`; None where they are unknown."""
    words = file_text(task / "schedstat").split()
    # A kernel that does not count writes `0 0 0`, also for a process that ran.
    return Scheduled(int(words[0]), int(words[1])) if len(words) == 3 and words[2] != "0" else None
