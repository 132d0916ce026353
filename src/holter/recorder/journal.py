"""Writes the rare facts of a process as JSON lines, from its first record on."""

from __future__ import annotations

import errno
import itertools
import json
import os
import threading
from collections import deque
from typing import TYPE_CHECKING

from holter.recorder.spool.files import open_apart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_AT_ONCE = 500
"""Lines in one write, where many wait."""
MAX_PENDING = 100_000
"""Lines kept while the file cannot be written; beyond them the oldest are lost."""


class Journal:
    """An append-only file. A line is never split over writes, so it is whole or absent after a kill."""

    def __init__(self, path: str, first: Callable[[], Iterable[tuple[str, object]]]) -> None:
        self.path = path
        self.lost = 0
        self._first = first
        self._pending: deque[bytes] = deque()
        self._descriptor = -1
        self._identity: tuple[int, int] | None = None
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
                self._reopen()
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
            if self._pending and self._descriptor >= 0 and _file(self._descriptor) != self._identity:
                self._reopen()  # the script closed every file, and the number may be another one's by now
            while self._pending and self._descriptor >= 0:
                lines = b"".join(itertools.islice(self._pending, _AT_ONCE))
                lead = b"\n" if self._cut else b""
                left = os.write(self._descriptor, lead + lines) - len(lead)
                full = left < len(lines)
                while self._pending and 0 < len(self._pending[0]) <= left:
                    left -= len(self._pending.popleft())
                self._cut = left > 0 or (left < 0 and self._cut)
                if full:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)

    def forget(self) -> None:
        """Give the file up without writing, as a forked child must: it is its parent's."""
        self._lock = threading.RLock()
        self._pending.clear()
        if self._descriptor >= 0:
            if _file(self._descriptor) == self._identity:
                os.close(self._descriptor)
            self._descriptor = -1

    def _reopen(self) -> None:
        self._descriptor = open_apart(self.path)
        self._identity = _file(self._descriptor)


def _file(descriptor: int) -> tuple[int, int] | None:
    """Return the device and inode of a descriptor; None when it is closed."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _line(kind: str, fact: object) -> bytes:
    return json.dumps({kind: fact}, separators=(",", ":"), default=str).encode("utf-8", "replace") + b"\n"
