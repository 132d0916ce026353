"""Merges the small files of a running job now and then, in a process with the lowest priority."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections import Counter
from typing import TYPE_CHECKING

from holter.schema.companions import own_command
from holter.store.layout import parse_part

if TYPE_CHECKING:
    from holter.store.job import JobFolder

MIN_FILES = 64
"""The least files of one table and node that are worth merging."""
EVERY_S = 60.0


class BackgroundCompaction:
    """Checks once a minute for many small files and merges them. Readers are not affected.

    Merging takes memory that a long-lived process would keep, so a short process does it.
    """

    def __init__(self, folder: JobFolder, *, min_files: int = MIN_FILES, every_s: float = EVERY_S) -> None:
        self._folder = folder
        self._min_files = min_files
        self._every_s = every_s
        self._last = time.monotonic()
        self._process: subprocess.Popen[bytes] | None = None

    def tick(self) -> None:
        """Start a merge if it is time and worth it; returns at once."""
        busy = self._process is not None and self._process.poll() is None
        if busy or time.monotonic() - self._last < self._every_s:
            return
        self._last = time.monotonic()
        if self._worth_it():
            self._process = subprocess.Popen(
                own_command("holter.store.compact", self._folder.url, str(self._min_files)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    def close(self) -> None:
        """Wait for a running merge, but not for long; a merge that is ended leaves all files unchanged."""
        if self._process is None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _worth_it(self) -> bool:
        parts = filter(None, (parse_part(entry.key) for entry in self._folder.place.files()))
        counts = Counter((part.table, part.node) for part in parts)
        return max(counts.values(), default=0) >= self._min_files
