"""A job cut into what came before, within, between and after some of its phases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Interval(NamedTuple):
    """One stretch of the job, and what it is: `X`, `Before X`, `Between X and Y`, `After Y`."""

    start: int
    end: int
    phase: str


def intervals(
    begin: NDArray[Any], end: NDArray[Any], phase: list[str], first: int, last: int
) -> list[Interval]:
    """Cut [first, last] by stretches of phases.

    Args:
        begin: When each stretch of a phase begins.
        end: When it ends.
        phase: Which phase it is. With several, stretches of one that follow one another are one.
        first: When the job begins.
        last: When it ends.

    Returns:
        The parts in the order of time; the names in `Between X and Y` are in the order of the alphabet, as
        what lies between the two is the same whichever came first.
    """
    rows = sorted(zip(begin.tolist(), end.tolist(), phase, strict=True))
    if not rows:
        return []
    joined: list[Interval] = []
    several = len(set(phase)) > 1
    for start, until, name in rows:
        before = joined[-1] if joined else None
        if before is not None and before.phase == name and several:
            joined[-1] = Interval(before.start, max(before.end, until), name)
        else:
            joined.append(Interval(start, until, name))
    found = []
    if first < joined[0].start:
        found.append(Interval(first, joined[0].start, f"Before {joined[0].phase}"))
    for at, one in enumerate(joined):
        found.append(one)
        if at + 1 < len(joined) and joined[at + 1].start > one.end:
            names = sorted((one.phase, joined[at + 1].phase))
            found.append(Interval(one.end, joined[at + 1].start, f"Between {names[0]} and {names[1]}"))
    final = max(joined, key=lambda one: one.end)
    if final.end < last:
        found.append(Interval(final.end, last, f"After {final.phase}"))
    return found


def inside(time: NDArray[Any], parts: list[Interval]) -> NDArray[np.bool_]:
    """Tell which times lie in one of the parts, their ends not included."""
    if not parts:
        return np.zeros(len(time), dtype=bool)
    ordered = np.array(sorted((part.start, part.end) for part in parts), np.int64)
    at = np.searchsorted(ordered[:, 0], time, side="right") - 1
    # Parts may overlap, as a step of one rank does the next of another: the latest end so far counts.
    ends = np.maximum.accumulate(ordered[:, 1])
    return np.asarray((at >= 0) & (time < ends[np.maximum(at, 0)]))
