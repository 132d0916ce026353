"""Divides steps that several windows request: one profiler for a step."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holter.schema.windows import Request

WHY = "two profilers at once would measure each other"
FREE = ("dataloader",)
"""Profilers that install nothing, so disturb no other."""


def divided(requests: Iterable[Request]) -> tuple[Request, ...]:
    """Return windows of one order, those over the same steps one after the other, each over its share of them.

    The share of the first is the larger one where they are not equal. Fewer steps than windows are not divided;
    then windows follow one another, as all do that overlap in part.
    """
    found = list(requests)
    for mine in _same(found):
        first, count = found[mine[0]].start_step, _count(found[mine[0]])
        if first is None or count < len(mine):
            continue
        bounds = [first + -(-count * part // len(mine)) for part in range(len(mine) + 1)]
        for part, at in enumerate(mine):
            found[at] = replace(found[at], start_step=bounds[part], steps=bounds[part + 1] - bounds[part])
    return tuple(found)


def notices(requests: Iterable[Request]) -> list[str]:
    """Return sentences about windows of one order whose steps differ from the requested ones."""
    asked = list(requests)
    given = divided(asked)
    lines = [
        f"steps {_steps(asked[mine[0]])} are divided, for {WHY}: "
        + ", ".join(f"{given[at].profiler} {_steps(given[at])}" for at in mine)
        for mine in _same(asked)
        if any(given[at] != asked[at] for at in mine)
    ]
    busy: list[tuple[int, Request]] = []
    for one in sorted((one for one in given if _exclusive(one)), key=lambda one: one.start_step or 0):
        begin = one.start_step or 0
        late = max((end for end, other in busy if _share_rank(other, one)), default=begin)
        if late > begin:
            lines.append(
                f"{one.profiler} of steps {_steps(one)} begins with step {late} or later, with its full length: "
                f"another window has its steps, and {WHY}"
            )
        busy.append((max(begin, late) + _count(one), one))
    return lines


def _same(requests: list[Request]) -> list[list[int]]:
    """Return which windows ask for the same steps of the same rank, by their places; two or more each."""
    groups: list[list[int]] = []
    for at, one in enumerate(requests):
        if _exclusive(one):
            equal = (group for group in groups if any(_equal(requests[other], one) for other in group))
            group = next(equal, None)
            if group is None:
                groups.append([at])
            else:
                group.append(at)
    return [group for group in groups if len(group) > 1]


def _equal(one: Request, other: Request) -> bool:
    return (one.start_step, _count(one)) == (other.start_step, _count(other)) and _share_rank(one, other)


def _share_rank(one: Request, other: Request) -> bool:
    """Return whether a rank has both windows."""
    return None in (one.rank, other.rank) or one.rank == other.rank


def _exclusive(one: Request) -> bool:
    return one.start_step is not None and one.profiler not in FREE


def _count(one: Request) -> int:
    return one.steps or 1


def _steps(one: Request) -> str:
    first, last = one.start_step or 0, (one.start_step or 0) + _count(one) - 1
    return f"{first} to {last}" if last > first else str(first)
