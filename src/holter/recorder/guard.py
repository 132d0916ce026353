"""Catches, counts and reports faults of the recorder, and switches failing collectors off."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 10
"""Faults after which a collector is switched off."""

MAX_TEXT = 500


@dataclass(slots=True, eq=False)
class CircuitBreaker:
    """The switch of one recorded part, such as `pytorch.backward`; off after `LIMIT` faults.

    Hooks of an adapter test `on`, and call `fault` in their `except Exception`.
    """

    name: str
    _journal_fault: Callable[[str, BaseException], None]
    on: bool = True
    faults: int = 0

    def fault(self, error: BaseException) -> None:
        """Count a fault; after `LIMIT` of them this breaker is off."""
        self.faults += 1
        if self.faults == LIMIT and self.on:
            self.on = False
            tell(f"{self.name} is no longer recorded after {LIMIT} faults")
        self._journal_fault(self.name, error)


def tell(text: str) -> None:
    """Write one line to stderr, if there is one."""
    try:
        sys.stderr.write(f"holter: {text}\n")
        sys.stderr.flush()
    except Exception:  # noqa: S110  stderr may be closed
        pass
