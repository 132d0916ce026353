"""Catches, counts and reports faults of the recorder, and switches failing collectors off."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 10
"""Faults after which a collector is switched off."""

MAX_TEXT = 500


class CircuitBreaker:
    """The switch of one recorded part (`pytorch.backward`); off after `LIMIT` faults.

    Hot paths of an adapter test `on` and call `fault` from their own `except Exception`.
    """

    __slots__ = ("_journal_fault", "faults", "name", "on")

    def __init__(self, name: str, journal_fault: Callable[[str, BaseException], None]) -> None:
        self.name = name
        self.on = True
        self.faults = 0
        self._journal_fault = journal_fault

    def fault(self, error: BaseException) -> None:
        """Count a fault; after `LIMIT` of them this breaker is off."""
        self.faults += 1
        if self.faults == LIMIT and self.on:
            self.on = False
            tell(f"{self.name} is no longer recorded after {LIMIT} faults")
        self._journal_fault(self.name, error)


class Faults:
    """Counts the recorder's faults by place."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def count(self, where: str, error: BaseException) -> dict[str, object] | None:
        """Count a fault. The first of a place goes to stderr; the 1st, 10th, 100th … is for the journal."""
        count = self.counts[where] = self.counts.get(where, 0) + 1
        text = f"{type(error).__name__}: {error}"[:MAX_TEXT]
        if count == 1:
            tell(f"fault in {where}: {text}")
        if str(count).strip("0") != "1":
            return None
        return {"time": time.perf_counter_ns(), "where": where, "error": text, "count": count}


def tell(text: str) -> None:
    """Write one line to stderr, if there is one."""
    try:
        sys.stderr.write(f"holter: {text}\n")
        sys.stderr.flush()
    except Exception:  # noqa: S110  stderr may be closed
        pass
