"""Catches, counts and reports faults of the recorder, and switches failing collectors off."""

from __future__ import annotations

import functools
import sys
import time
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 10
"""Faults after which a collector is switched off."""

MAX_TEXT = 500

State = TypeVar("State")


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


def around(
    original: Callable[..., Any],
    before: Callable[[tuple[Any, ...], dict[str, Any]], State],
    after: Callable[[State, Any, BaseException | None], None],
    breaker: CircuitBreaker,
) -> Callable[..., Any]:
    """Wrap `original` so that `before` and `after` run around it and cannot change what it does.

    Args:
        original: The framework's or the user's function; called exactly once for each call.
        before: Gets the arguments; what it returns is handed to `after`.
        after: Gets that state, the result (None when it raised) and the error (None when it did not).
            Not called when `before` failed.
        breaker: Counts the faults of both.
    """

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not breaker.on:
            return original(*args, **kwargs)
        failed = False
        try:
            state = before(args, kwargs)
        except Exception as fault:
            failed = True
            breaker.fault(fault)
        if failed:  # outside the handler: else an error of the original has our fault as its context
            return original(*args, **kwargs)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            _call_after(after, state, None, error, breaker)
            raise
        _call_after(after, state, result, None, breaker)
        return result

    return wrapper


def _call_after(
    after: Callable[[State, Any, BaseException | None], None],
    state: State,
    result: Any,
    error: BaseException | None,
    breaker: CircuitBreaker,
) -> None:
    try:
        after(state, result, error)
    except Exception as fault:
        breaker.fault(fault)


def tell(text: str) -> None:
    """Write one line to stderr, if there is one."""
    try:
        sys.stderr.write(f"holter: {text}\n")
        sys.stderr.flush()
    except Exception:  # noqa: S110  stderr may be closed
        pass
