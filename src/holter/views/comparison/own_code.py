"""Compares the own code of two trainings' loops: functions that appeared, disappeared or changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from holter.views.wording import milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holter.views.document.types.wall_time import OwnCodeEntry

CHANGED = 0.05
"""Share of the longer step from which on a difference is told; smaller ones are noise of the samples."""


class ComparedFunction(TypedDict):
    """A function of the loop's own code, and its mean time in a step; null where it was not sampled."""

    function: str
    file: str
    before_ms: float | None
    after_ms: float | None


def functions(
    before: Sequence[OwnCodeEntry],
    before_ms: float | None,
    after: Sequence[OwnCodeEntry],
    after_ms: float | None,
) -> list[ComparedFunction]:
    """Return the functions whose time in a step differs, the largest difference first.

    Args:
        before: Own code of the baseline; lines of a file move, so that functions are known by name and file.
        before_ms: Mean step of the baseline.
        after: Own code of the other job.
        after_ms: Mean step of the other job.
    """
    if not before_ms or not after_ms:
        return []
    old, new = _times(before, before_ms), _times(after, after_ms)
    least = CHANGED * max(before_ms, after_ms)
    found = [(new.get(key, 0.0) - old.get(key, 0.0), key) for key in dict.fromkeys([*old, *new])]
    return [
        {"function": key[0], "file": key[1], "before_ms": old.get(key), "after_ms": new.get(key)}
        for difference, key in sorted(found, key=lambda item: -abs(item[0]))
        if abs(difference) >= least
    ]


def _times(entries: Sequence[OwnCodeEntry], step_ms: float) -> dict[tuple[str, str], float]:
    times: dict[tuple[str, str], float] = {}
    for one in entries:
        key = one["function"], one["file"]
        times[key] = times.get(key, 0.0) + one["pct"] / 100 * step_ms
    return times


def lines(changed: Sequence[ComparedFunction]) -> Iterator[str]:
    """Say of each function whether it appeared, disappeared or changed."""
    for one in changed:
        place, before, after = f"{one['function']} ({one['file']})", one["before_ms"], one["after_ms"]
        if before is None:
            yield f"own code: {place} appeared: {milliseconds(after)} of a step"
        elif after is None:
            yield f"own code: {place} disappeared: it took {milliseconds(before)} of a step"
        else:
            yield f"own code: {place}: {milliseconds(before)} → {milliseconds(after)} of a step"
