"""Splits parts of a step by the names of the work in them: callbacks, loggers, collectives, annotations."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.grouping import step_keys
from holter.analysis.steps.exclusive import NESTING
from holter.analysis.steps.loop_thread import by_loop
from holter.schema.phases import BREAKDOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holter.schema.table import Table

NAMED = ("annotation", "compute", "communication")
"""Phases whose spans say by their names what they are."""
PHASES = ("step", *NAMED, *(part for part in BREAKDOWN if part not in ("other", *NAMED)))
"""The phases of spans that `named_work` reads."""
_CALLS = ("callback ", "logger ", "hook ", "call of ")
"""The names of what trainers call begin with these."""
_STRETCHES = ("loss", "optimizer")
"""Parts in which trainers call callbacks and loggers, whose time does not belong to them."""
LEAST = 1.0
"""Work below this percentage of the loop is not named."""


@dataclass(frozen=True, slots=True)
class NamedWork:
    """Work within a part of the steps that a span names."""

    part: str
    """The part of `BREAKDOWN` that its time belongs to."""
    name: str
    pct: float
    """Percent of the loop's wall time, without other parts and other named work inside of it."""
    found_in: str
    """The part in which it runs: another one for a callback that a trainer calls within the optimizer."""


def named_work(spans: Table, steps: Table) -> list[NamedWork]:
    """Return named work within steps, the largest first.

    Args:
        spans: Table `spans`, with `PHASES`.
        steps: Table `steps`, those that count.
    """
    total = float(steps["duration"].sum())
    if not total or not np.isin(spans["phase"], NAMED).any():
        return []
    inside = np.isin(step_keys(spans), step_keys(steps)) & (spans["time"] >= steps["time"].min())
    own = _own_times(spans.where(by_loop(spans) & inside))
    found = [
        NamedWork("other" if _moves(part, name) else part, name, 100.0 * ns / total, part)
        for (part, name), ns in own.items()
    ]
    return sorted((one for one in found if one.pct >= LEAST), key=lambda one: (-one.pct, one.name))


def _moves(part: str, name: str) -> bool:
    return part in _STRETCHES and name.startswith(_CALLS)


def moved(split: Mapping[str, float], work: Iterable[NamedWork], whole: float = 100.0) -> dict[str, float]:
    """Return parts of the steps, which add up to `whole`, with the calls of trainers in `other`."""
    result = dict(split)
    for one in work:
        if one.part != one.found_in:
            share = min(one.pct * whole / 100, result[one.found_in])
            result[one.found_in] -= share
            result[one.part] += share
    return result


def before_steps(spans: Table, first: int) -> dict[str, float]:
    """Return the seconds of named work before the first step began at `first`, ns; the mean of the ranks."""
    early = spans.where(by_loop(spans) & (spans["time"] + spans["duration"] <= first))
    ranks = max(len(np.unique(early["rank"])), 1)
    own = _own_times(early)
    return {name: ns / 1e9 / ranks for (part, name), ns in own.items() if part == "other"}


def _own_times(spans: Table) -> dict[tuple[str, str], int]:
    """Return the time of each part's named work in ns: not that of other spans inside of it."""
    found: dict[tuple[str, str], int] = defaultdict(int)
    spans = spans.where((spans["phase"] != "step") & (spans["duration"] > 0))
    depth = np.array([NESTING.get(phase, len(NESTING)) for phase in spans["phase"].tolist()])
    end = spans["time"] + spans["duration"]
    for rank in np.unique(spans["rank"]).tolist():
        mine = np.flatnonzero(spans["rank"] == rank)
        order = mine[np.lexsort((depth[mine], -end[mine], spans["time"][mine]))]
        rows = zip(
            *(column[order].tolist() for column in (spans["time"], end, spans["phase"], spans["name"])),
            strict=True,
        )
        open_: list[tuple[int, str, tuple[str, str] | None]] = []
        """End, part and named work of the spans around."""
        for begin, until, phase, name in rows:
            while open_ and open_[-1][0] <= begin:
                open_.pop()
            around = open_[-1] if open_ else None
            until = min(until, around[0]) if around else until
            part = phase if phase != "annotation" else around[1] if around else "other"
            key = (part, name) if phase in NAMED else None
            if around and around[2]:
                found[around[2]] -= until - begin
            if key:
                found[key] += until - begin
            open_.append((until, part, key))
    return found
