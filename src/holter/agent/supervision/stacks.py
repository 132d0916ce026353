"""Requests the Python stacks of a process, reads them, and names the current position."""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from holter.agent.machine import procfs
from holter.schema.record import stacks_name

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from holter.agent.drain.journal import Process

MAX_TEXT = 64 * 1024
_THREAD = re.compile(r"^(Current thread|Thread) (0x[0-9a-f]+) .*\(most recent call first\):")
_FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)$')
_FOREIGN = re.compile(
    r"/(site-packages|dist-packages)/|/lib/python3|/lib64/python3|/holter/recorder/|^<frozen"
)


class StackFrame(NamedTuple):
    """One line of a stack."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.function} ({self.file}:{self.line})"

    @property
    def own(self) -> bool:
        """Whether it is the user's code: neither installed nor Python's."""
        return _FOREIGN.search(self.file) is None


class StackRequest:
    """Stacks asked for from one process."""

    def __init__(self, spool: Path, process: Process, *, proc: Path = procfs.PROC) -> None:
        self.process = process
        self._path = spool / stacks_name(process.key)
        self._before = self._path.stat().st_size if self._path.exists() else 0
        self._send(proc)

    def _send(self, proc: Path) -> None:
        """Send the signal that the process declared, unless the process would die of it.

        A process that is slow to exit, and has put all signals back, may look like one that hangs.
        """
        wanted = self.process.stacks_signal
        stat = procfs.stat(self.process.pid, proc)
        if wanted is None or stat is None or not stat.alive or stat.started != self.process.ticks:
            return
        if procfs.catches(self.process.pid, wanted, proc):
            with contextlib.suppress(OSError):
                os.kill(self.process.pid, wanted)

    def text(self) -> str:
        """Return what the process has written since, at most `MAX_TEXT` characters, or nothing yet."""
        try:
            with open(self._path, "rb") as file:
                file.seek(self._before)
                return file.read(MAX_TEXT).decode(errors="replace")
        except OSError:
            return ""


def loop_stack(text: str, ident: int = 0) -> list[StackFrame]:
    """Return the stack of the thread that trains, innermost first, from the text that a process wrote.

    Without a thread `ident` in the text this is the thread that took the signal, which is the main thread.
    """
    stacks: list[tuple[bool, int, list[StackFrame]]] = []
    for line in text.splitlines():
        if head := _THREAD.match(line):
            stacks.append((head[1] == "Current thread", int(head[2], 16), []))
        elif stacks and (frame := _FRAME.match(line)):
            stacks[-1][2].append(StackFrame(frame["file"], int(frame["line"]), frame["function"]))
    named = [frames for _, thread, frames in stacks if thread == ident]
    current = [frames for is_current, _, frames in stacks if is_current]
    return [*named, *current, *(frames for _, _, frames in stacks[-1:]), []][0]


def common_frame(stacks: Iterable[list[StackFrame]]) -> tuple[str, int] | None:
    """Return the innermost frame that most processes stand in, and how many do."""
    counts = Counter(str(stack[0]) for stack in stacks if stack)
    return counts.most_common(1)[0] if counts else None


def own_frame(stack: list[StackFrame]) -> StackFrame | None:
    """Return the innermost frame of the user's own code."""
    return next((frame for frame in stack if frame.own), None)
