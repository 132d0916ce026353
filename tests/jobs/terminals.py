"""A terminal with one program, which pyte emulates."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyte

ROWS, COLUMNS = 12, 90


@dataclass
class Terminal:
    """A terminal with one program; `screens` are its distinct contents, in order."""

    command: Sequence[str]
    env: Mapping[str, str]
    columns: int = COLUMNS
    screens: list[list[str]] = field(default_factory=list)
    code: int | None = None

    def __post_init__(self) -> None:
        self.screen = pyte.HistoryScreen(self.columns, ROWS, history=1000)
        self.stream = pyte.ByteStream(self.screen)
        self.process, self.descriptor = pty.fork()
        if self.process == 0:
            os.execvpe(self.command[0], self.command, {**os.environ, **self.env})
        self.resize(ROWS)

    def resize(self, rows: int) -> None:
        """Change the number of rows."""
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, self.columns, 0, 0))
        self.screen.resize(rows, self.columns)

    def watch(self, until: Callable[[list[str]], bool], limit_s: float = 90) -> None:
        """Read until a screen is as wanted, or to the end of the program."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            if select.select([self.descriptor], [], [], 0.2)[0]:
                try:
                    data = os.read(self.descriptor, 65536)
                except OSError:
                    data = b""
                if not data:
                    self.code = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
                    return
                self.stream.feed(data)
                shown = [text.rstrip() for text in self.screen.display]
                if not self.screens or self.screens[-1] != shown:
                    self.screens.append(shown)
                if until(shown):
                    return
        raise AssertionError(self.screens[-1:])

    @property
    def text(self) -> list[str]:
        """All lines, those that have scrolled away too."""
        above = [
            "".join(row[at].data for at in range(self.columns)).rstrip() for row in self.screen.history.top
        ]
        return above + [text.rstrip() for text in self.screen.display]
