"""Samples the Python stacks of running processes with py-spy, which reads their memory and stops nothing."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from holter.agent.machine.procfs import PROC, file_text
from holter.agent.programs.stacks import MOST_TOLD
from holter.agent.python_samples import find, missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from holter.agent.collectors import Watched
    from holter.agent.drain.clock import Clock
    from holter.agent.programs.processes import ProcessTree
    from holter.store.documents import Document
    from holter.store.parquet.columns import Columns

HZ = 20
FIRST_S, PART_S = 5, 15
"""Lengths of the first part and of the others: the first shows soon whether samples come."""
MAX_BYTES = 16 << 20
MOST_STACKS = 2000
_PATIENCE_S = 3.0
_FAILURES = 3
_LINE = re.compile(
    r'(?:(?:.*;)?process (?P<pid>\d+):".*";)?thread \((?P<thread>\d+)\): (?P<name>[^;]*);'
    r"(?P<stack>.+) (?P<samples>\d+)"
)
_FRAME = re.compile(r"(?P<name>.*) \((?P<file>.*?):(?P<line>\d+)\)")
_LIBRARY = re.compile(r".*/((?:site|dist)-packages/.*|lib/python3[^/]*/.*)|(<.*)")
_WAITS = re.compile(r"(threading|queue|selectors|connection|thread)\.py:\d+\)$")
"""Where a thread waits for others; of such stacks only the main thread's are kept."""


class _Sample(NamedTuple):
    """One stack of one thread, outermost frame first, and the number of samples."""

    pid: int
    thread: str
    stack: tuple[str, ...]
    own: int
    """Place of the innermost frame of the user's own code; -1 without one."""
    samples: int


class SpiedStacks:
    """Keeps one py-spy at work on a process and all that it started, part after part.

    A row's stack begins with a frame `process PID NAME`, and of other threads than the main one with
    `thread NAME`. Frames of the user's own code have the line that ran, so that a loop's lines differ.
    """

    def __init__(
        self,
        pid: int,
        folder: Path,
        clock: Clock,
        processes: ProcessTree,
        watched: Watched,
        on_fault: Callable[[str, str], None],
        proc: Path = PROC,
    ) -> None:
        self._pid = pid
        self._folder = folder
        self._clock = clock
        self._processes = processes
        self._watched = watched
        self._on_fault = on_fault
        self._proc = proc
        self._running: subprocess.Popen[bytes] | None = None
        self._began = 0
        self._count = self._failed = 0
        self._own: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        """Samples by process and by innermost function of its own code."""
        self._folders: dict[int, str] = {}
        """The folder of each process's script; files below it are named without it."""
        self._lines: dict[str, str] = {}
        """The name of each library function: the line is that of the first sample."""
        self.newest: Columns | None = None
        """The rows of the last part, for whoever shows the job while it runs."""
        self.cost_ns = 0
        """Nothing is sampled inside of the processes."""

    def take(self) -> list[Columns]:
        """Return the rows of a part that is over, and begin the next part. Raises `OSError`."""
        found = []
        if self._running is not None:
            if self._running.poll() is None:
                return []
            found = self._finished()
        self._begin()
        return found

    def end(self) -> list[Columns]:
        """End the part that runs, and return its rows."""
        if self._running is None:
            return []
        self._running.send_signal(signal.SIGINT)  # py-spy writes what it has
        try:
            self._running.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._running.kill()
            self._running.wait()
        return self._finished()

    def told(self) -> list[Document]:
        """Return the functions of each process that take most of its main thread's time."""
        return [
            {
                "pid": pid,
                "sampled_s": sum(counts.values()) / HZ,
                "functions": [
                    {"name": name, "seconds": count / HZ}
                    for name, count in sorted(counts.items(), key=lambda one: -one[1])[:MOST_TOLD]
                ],
            }
            for pid, counts in self._own.items()
        ]

    def _begin(self) -> None:
        spy = find()
        python = any(one.python and one.alive for one in self._processes.known.values())
        if self._failed >= _FAILURES or not python or spy is None:
            return
        length = PART_S if self._count else FIRST_S
        self._count += 1
        words = [spy, "record", "--pid", str(self._pid), "--rate", str(HZ), "--duration", str(length)]
        words += ["--nonblocking", "--subprocesses", "--idle", "--threads", "--full-filenames"]
        words += ["--format", "raw", "--output", str(self._path)]
        with (self._folder / "py-spy.log").open("wb") as log:
            # A session of its own: Ctrl-C must not reach it before its part is asked for.
            self._running = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._began = time.monotonic_ns()
        self._watched.companions.append(self._running.pid)

    @property
    def _path(self) -> Path:
        return self._folder / f"py-spy.{self._count}.samples"

    def _finished(self) -> list[Columns]:
        ended, self._running = self._running, None
        if ended is None:
            return []
        self._watched.companions.remove(ended.pid)
        try:
            with self._path.open("rb") as file:
                text = file.read(MAX_BYTES).decode(errors="replace")
        except FileNotFoundError:
            text = ""
        self._path.unlink(missing_ok=True)
        samples = sorted(self._samples(text), key=lambda one: -one.samples)[:MOST_STACKS]
        if samples:
            self._failed = 0
            self.newest = self._rows(samples)
            return [self.newest]
        self._failed += 1
        if self._failed == _FAILURES:
            log = file_text(self._folder / "py-spy.log").splitlines()
            said = log[-1][:300] if log else missing() or "it said nothing"
            self._on_fault("py-spy", f"no stacks were sampled: {said}")
        return []

    def _samples(self, text: str) -> Iterator[_Sample]:
        for line in text.splitlines():
            match = _LINE.fullmatch(line)
            if match is None:
                continue
            pid, thread = int(match["pid"] or self._pid), match["name"]
            frames = match["stack"].split(";")
            main = thread == "MainThread"
            if main and pid not in self._folders:
                self._folders[pid] = self._folder_of(pid, frames)
            if not main and _WAITS.search(frames[-1]):
                continue
            texts, own = [], -1
            for at, frame in enumerate(frames):
                shown, mine = self._frame(frame, pid)
                texts.append(shown)
                own = at if mine else own
            count = int(match["samples"])
            if main:
                self._own[pid][texts[own]] += count
            yield _Sample(pid, "" if main else thread, tuple(texts), own, count)

    def _frame(self, text: str, pid: int) -> tuple[str, bool]:
        """Return a frame as it is stored, and whether it is of the user's own code."""
        match = _FRAME.fullmatch(text)
        if match is None:
            return text, False
        library = _LIBRARY.fullmatch(match["file"])
        if library is None:
            path = match["file"].removeprefix(self._folders.get(pid) or "//")
            return f"{match['name']} ({path}:{match['line']})", True
        function = f"{match['name']} ({library[1] or library[2]}"
        return self._lines.setdefault(function, f"{function}:{match['line']})"), False

    def _folder_of(self, pid: int, frames: list[str]) -> str:
        """Return the folder of a process's script, else that in which it runs; empty if unknown."""
        for frame in frames:
            match = _FRAME.fullmatch(frame)
            if match and match["name"] == "<module>" and not _LIBRARY.fullmatch(match["file"]):
                return os.path.join(os.path.dirname(match["file"]), "")
        try:
            return os.path.join(os.readlink(self._proc / str(pid) / "cwd"), "")
        except OSError:
            return ""

    def _rows(self, samples: list[_Sample]) -> Columns:
        number = len(samples)
        names = {one.pid: one.name for one in self._processes.known.values()}
        prefix = {
            one.pid: f"process {one.pid} {names.get(one.pid, '')}".strip().replace(";", ",")
            for one in samples
        }
        return {
            "time": [self._clock.to_wall(self._began)] * number,
            "duration": [time.monotonic_ns() - self._began] * number,
            "rank": [self._rank_of(one.pid) for one in samples],
            "step": [-1] * number,
            "mode": ["global"] * number,
            "phase": ["any"] * number,
            "stack": [
                ";".join([prefix[one.pid], *([f"thread {one.thread}"] if one.thread else []), *one.stack])
                for one in samples
            ],
            "samples": [one.samples for one in samples],
            "self_time": [one.samples * 1_000_000_000 // HZ for one in samples],
        }

    def _rank_of(self, pid: int) -> int:
        """Return the rank that the launcher gave a process; -1 without one."""
        found = environment_of(pid, self._proc).get("RANK", "")
        return int(found) if found.isdecimal() else -1


def environment_of(pid: int, proc: Path = PROC) -> dict[str, str]:
    """Return the environment that a process started with; empty if it may not be read."""
    try:
        pairs = (proc / str(pid) / "environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return {}
    return {name: value for name, found, value in (one.partition("=") for one in pairs) if found}
