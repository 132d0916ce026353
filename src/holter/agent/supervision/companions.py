"""Starts the companion processes of the agent late, at low priority, and ends them with the job."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from holter.agent.machine import procfs
from holter.agent.supervision.children import send
from holter.agent.supervision.command import spawn
from holter.schema.companions import FAULT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from holter.agent.collectors import Watched

START_AFTER_S = 5.0
"""A short command runs without companions."""
STOP_GRACE_S = 3.0
_MOST_SAID = 1 << 20


class Companions:
    """The companion processes of one job; their failures never affect the job."""

    def __init__(
        self,
        commands: Sequence[list[str]],
        log: Path | None,
        watched: Watched,
        told: bytes,
        on_fault: Callable[[str, str], None],
    ) -> None:
        self.cpu_s = 0.0
        """CPU time of those that have ended."""
        self._commands = [list(command) for command in commands]
        self._log = log
        self._watched = watched
        self._told = told
        self._on_fault = on_fault
        self._running: dict[int, list[str]] = {}
        self._heard = 0
        """Bytes of the log that were read."""

    def start(self) -> None:
        """Start them once; they inherit the priority of the calling thread."""
        commands, self._commands = self._commands, []
        for command in commands:
            self.add(command)

    def add(self, command: list[str]) -> None:
        """Start one more now."""
        target = os.devnull if self._log is None else str(self._log)
        output = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            # They do not get the recorder's variables, because they are not part of the job.
            pid = spawn(command[0], command, dict(os.environ), mask=set(), told=self._told, output=output)
        except OSError as error:
            self._on_fault(f"companion {_name(command)}", str(error))
            return
        finally:
            os.close(output)
        self._running[pid] = command
        self._watched.companions.append(pid)

    def runs(self, word: str) -> bool:
        """Return whether a companion with this argument runs."""
        return any(word in command for command in self._running.values())

    def look(self) -> None:
        """Record the faults of failed companions and the faults that the others report."""
        for pid in list(self._running):
            self._reap(pid, expected=False)
        self._listen()

    def stop(self) -> None:
        """End all: SIGTERM, a short wait, then SIGKILL."""
        self._commands = []
        for pid in self._running:
            send(pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_GRACE_S
        while self._running and time.monotonic() < deadline:
            for pid in list(self._running):
                self._reap(pid, expected=True)
            if self._running:
                time.sleep(0.01)
        for pid in list(self._running):
            send(pid, signal.SIGKILL)
            self._reap(pid, expected=True, wait=True)
        self._listen()

    def _listen(self) -> None:
        try:
            with open(self._log or os.devnull, "rb") as log:
                log.seek(self._heard)
                said = log.read(_MOST_SAID)
        except OSError:
            return
        lines = said[: said.rfind(b"\n") + 1] if len(said) < _MOST_SAID else said
        self._heard += len(lines)
        for line in lines.decode(errors="replace").splitlines():
            if line.startswith(FAULT):
                where, _, what = line.removeprefix(FAULT).partition(": ")
                self._on_fault(where, what[:500])

    def _reap(self, pid: int, *, expected: bool, wait: bool = False) -> None:
        try:
            ended, status, usage = os.wait4(pid, 0 if wait else os.WNOHANG)
        except ChildProcessError:
            self._running.pop(pid, None)
            return
        if ended == 0:
            return
        command = self._running.pop(pid)
        self._watched.companions.remove(pid)
        self.cpu_s += usage.ru_utime + usage.ru_stime
        if status != 0 and not expected:
            code = os.waitstatus_to_exitcode(status)
            self._on_fault(f"companion {_name(command)}", f"ended with {code}; {self._last_line()}")

    def _last_line(self) -> str:
        if self._log is None:
            return "its output was not kept"
        lines = procfs.file_text(self._log).splitlines()
        return lines[-1][:500] if lines else "it said nothing"


def _name(command: list[str]) -> str:
    """Return the module of holter that a command runs, or the program's name."""
    return next((word for word in command if word.startswith("holter.")), os.path.basename(command[0]))
