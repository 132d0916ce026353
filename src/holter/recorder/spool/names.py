"""Numbers names: a record holds a 16-bit id, the journal its text."""

from __future__ import annotations

import threading
import time

NO_NAME = 0
"""The id of a span that has no name."""
OTHER = 65_535
"""The id of every name that comes after the table is full; it reads `(other)`."""
MAX_LENGTH = 4096
"""Characters of a name that are kept."""
MAX_BYTES = 32 << 20
"""Memory that names may take in all; beyond it they are `(other)`."""


class NameTable:
    """The names of this process. Ids outlive sessions and forks, so that callers may keep them."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}
        self.refused = 0
        """Uses of names that did not fit."""
        self._bytes = 0
        self._lock = threading.RLock()

    def id(self, text: str) -> tuple[int, bool]:
        """Return the id of a name, and whether it is new; 0 for the empty text."""
        key = text[:MAX_LENGTH]
        with self._lock:
            if key in self.ids:
                return self.ids[key], False
            if not key:
                return NO_NAME, False
            if len(self.ids) >= OTHER - 1 or self._bytes + len(key) > MAX_BYTES:
                self.refused += 1
                return OTHER, self.refused == 1
            self.ids[key] = number = len(self.ids) + 1
            self._bytes += len(key)
            return number, True

    def listed(self) -> list[tuple[int, str]]:
        """Return every id with its text."""
        found = [(number, text) for text, number in list(self.ids.items())]
        return [*found, (OTHER, "(other)")] if self.refused else found

    def fault(self) -> dict[str, object]:
        """Return the fact `fault` with the number of names that did not fit."""
        error = f"{self.refused} uses of names that came after the table was full read (other)"
        return {"time": time.perf_counter_ns(), "where": "names", "error": error, "count": self.refused}

    def forked(self) -> None:
        """Replace the lock, which another thread of the parent may have held."""
        self._lock = threading.RLock()


NAMES = NameTable()
