"""Computes where Python code spends its time in profiling windows: functions, callers and flame graphs.

Only samples have whole stacks. cProfile knows of each call its caller alone, so a tree of what it found
would be invented: of two functions that one wrapper calls, as every layer of a model is, it cannot say which
belongs to which call of the wrapper.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.loading.stacks import frames

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from holter.schema.table import Table

DEEPEST = 200
"""Levels of a flame graph; time further below stays with the last of them."""
_COUNTS = ("calls", "primitive_calls", "total_time", "self_time")


class MixedTimers(ValueError):  # noqa: N818 - says what the rows are
    """Rows have times of different timers and cannot be added up."""


@dataclass(frozen=True, slots=True)
class Function:
    """Time of one function over all rows. Times are ns."""

    name: str
    """`qualname (file:line)`, or what a function is called that is not written in Python."""
    self_ns: int
    total_ns: int
    """Time with callees; recursive calls count once."""
    calls: int | None = None
    """None when it was sampled."""
    primitive_calls: int | None = None
    samples: int | None = None
    """Samples in which it was innermost; None when every call was timed."""


@dataclass(frozen=True, slots=True)
class Call:
    """Time of one function in calls from one caller. Times are ns."""

    caller: str
    name: str
    calls: int
    total_ns: int
    self_ns: int


@dataclass(slots=True)
class Flame:
    """One function in the context of its callers, and what it called."""

    name: str
    self_ns: int = 0
    children: dict[str, Flame] = field(default_factory=dict)

    @property
    def total_ns(self) -> int:
        """Time of the function and of all callees."""
        total, waiting = 0, [self]
        while waiting:
            one = waiting.pop()
            total += one.self_ns
            waiting += one.children.values()
        return total

    def to_json(self) -> dict[str, Any]:
        """Return `name`, `value` (ns, with all below) and `children`, the longest first."""
        below = sorted((child.to_json() for child in self.children.values()), key=lambda c: -c["value"])
        value = self.self_ns + sum(child["value"] for child in below)
        return {"name": self.name, "value": value, **({"children": below} if below else {})}


def one_timer(rows: Table) -> str:
    """Return the timer of all rows, "" without rows; raises `MixedTimers` when they differ."""
    timers = sorted(set(rows["timer"].tolist()))
    if len(timers) > 1:
        raise MixedTimers(f"times of the timers {', '.join(timers)} do not add up; choose one of them")
    return timers[0] if timers else ""


def summed(rows: Table, *by: str) -> tuple[list[NDArray[Any]], NDArray[np.int64]]:
    """Add up calls and times of rows that agree in some columns.

    Returns:
        The values of these columns, and calls, primitive calls, total and own time as one array, rows by 4.
    """
    found = [np.unique(rows[name].astype(str), return_inverse=True) for name in by]
    keys, place = np.unique(np.array([codes for _, codes in found]), axis=1, return_inverse=True)
    counts = np.zeros((keys.shape[1], len(_COUNTS)), np.int64)
    for at, name in enumerate(_COUNTS):
        np.add.at(counts[:, at], place.ravel(), rows[name])
    return [values[codes] for (values, _), codes in zip(found, keys, strict=True)], counts


def functions(rows: Table) -> list[Function]:
    """Add up table `python_functions` by function; those with most time of their own first.

    Raises:
        MixedTimers: The rows are of several timers, whose times do not add up.
    """
    one_timer(rows)
    (names,), counts = summed(rows, "function")
    found = [
        Function(name, own, total, calls, primitive)
        for name, (calls, primitive, total, own) in zip(names.tolist(), counts.tolist(), strict=True)
    ]
    return sorted(found, key=lambda one: (-one.self_ns, one.name))


def calls(rows: Table) -> list[Call]:
    """Add up table `python_calls` by caller and function; those that took longest first.

    Raises:
        MixedTimers: The rows are of several timers.
    """
    one_timer(rows)
    (callers, names), counts = summed(rows, "caller", "function")
    found = [
        Call(caller, name, number, total, own)
        for caller, name, (number, _, total, own) in zip(
            callers.tolist(), names.tolist(), counts.tolist(), strict=True
        )
    ]
    return sorted(found, key=lambda one: (-one.total_ns, one.caller, one.name))


def functions_of_stacks(rows: Table) -> list[Function]:
    """Add up table `python_stacks` by function; those with most time of their own first."""
    own: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for stack, samples, spent in _samples(rows):
        for name in set(stack):
            own[name][1] += spent
        innermost = own[stack[-1]]
        innermost[0] += spent
        innermost[2] += samples
    found = [Function(name, one, total, samples=seen) for name, (one, total, seen) in own.items()]
    return sorted(found, key=lambda one: (-one.self_ns, one.name))


def flame_of_stacks(rows: Table) -> Flame:
    """Return table `python_stacks` as a tree: exact, since each sample is a whole stack."""
    root = Flame("all")
    for stack, _, spent in _samples(rows):
        at = root
        for name in stack[:DEEPEST]:
            at = at.children.setdefault(name, Flame(name))
        at.self_ns += spent
    return root


def place(name: str) -> tuple[str, int, str]:
    """Return file, line and name of a function; `~`, 0 and its text when it is not written in Python."""
    found = frames(name)
    if not found or not found[0].file:
        return "~", 0, name
    line = name.rpartition(":")[2].rstrip(")")
    return found[0].file, int(line), found[0].qualname


def _samples(rows: Table) -> Iterable[tuple[list[str], int, int]]:
    for stack, samples, spent in zip(
        rows["stack"].tolist(), rows["samples"].tolist(), rows["self_time"].tolist(), strict=True
    ):
        names = [name for name in stack.split(";") if name]
        if names:
            yield names, samples, spent
