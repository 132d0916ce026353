"""Write the rare facts of a process as JSON lines; hold them back until the process records something."""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MAX_PENDING = 100_000
"""Lines kept while the file cannot be written; beyond them the oldest are lost."""


class Journal:
    """An append-only file. Each line is one `write`, so a line is whole or absent after a kill."""

    def __init__(self, path: str, first: Callable[[], Iterable[tuple[str, object]]]) -> None:
        self.path = path
        self.lost = 0
        self._first = first
        self._pending: deque[bytes] = deque()
        self._descriptor = -1
        self._cut = False
        # Re-entrant: a garbage-collector callback may journal while this thread is journaling.
        self._lock = threading.RLock()

    @property
    def opened(self) -> bool:
        """Whether the file exists, that is, whether this process has recorded anything."""
        return self._descriptor >= 0

    def open(self) -> None:
        """Create the file with the first facts, then write what was held back. Raises `OSError`."""
        with self._lock:
            if self._descriptor < 0:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                self._descriptor = os.open(self.path, flags, 0o600)
                self._pending.extendleft([_line(kind, fact) for kind, fact in self._first()][::-1])
            self.flush()

    def write(self, kind: str, fact: object) -> None:
        """Append one fact, held back while the file is not open; raises `OSError` when it fails."""
        line = _line(kind, fact)
        with self._lock:
            if len(self._pending) >= MAX_PENDING:
                self._pending.popleft()
                self.lost += 1
            self._pending.append(line)
            if self._descriptor >= 0:
                self.flush()

    def flush(self) -> None:
        """Write what is held back. Raises `OSError`; what was not written stays."""
        with self._lock:
            while self._pending and self._descriptor >= 0:
                line = self._pending[0]
                written = os.write(self._descriptor, b"\n" + line if self._cut else line)
                self._cut = written < len(line)
                if self._cut:
                    raise OSError(28, "no space left for the journal", self.path)
                self._pending.popleft()

    def forget(self) -> None:
        """Give the file up without writing, as a forked child must: it is its parent's."""
        self._lock = threading.RLock()
        self._pending.clear()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _line(kind: str, fact: object) -> bytes:
    return json.dumps({kind: fact}, separators=(",", ":"), default=str).encode("utf-8", "replace") + b"\n"
