"""`Step`: the numbers and tensors of one step of one rank, collected from several tables."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NotRequired, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holter.rules.engine.window import Window
    from holter.schema.table import Table

TABLES = ("scalars", "tensors", "steps")
_BEHIND = 2
"""A step is complete once so many later ones have begun: numbers may be logged a little late."""
STATISTICS = ("min", "max", "mean", "std", "abs_mean", "q05", "q50", "q95", "delta_l2", "delta_abs_mean")
COUNTS = ("count", "nan", "posinf", "neginf", "zeros")


@dataclass(frozen=True, slots=True)
class Step:
    """One step of one rank."""

    number: int
    rank: int
    node: str
    time: int
    """When its first row ended, ns since the epoch."""
    scalars: Mapping[str, float] = field(default_factory=dict)
    """Numbers that training produced, by name."""
    tensors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Statistics of tensors by name; `rms`, `l2`, `abs_max` and `var` are computed."""
    seconds: float | None = None
    """Its duration; None unless the rule reads table `steps`."""


class _Waiting(TypedDict):
    """A step that may get further rows; a number that JSON cannot hold is a text."""

    time: int
    node: str
    scalars: dict[str, float | str]
    tensors: dict[str, dict[str, float | str]]
    seconds: NotRequired[float]


def completed(window: Window, reads: tuple[str, ...]) -> Iterator[Step]:
    """Yield the steps that are complete now, each rank's in order; the others wait in the state."""
    waiting: dict[str, dict[str, _Waiting]] = window.state.setdefault("waiting", {})
    last: dict[str, int] = window.state.setdefault("last", {})
    for table in (name for name in TABLES if name in reads):
        _take(table, window.new(table), waiting, last)
    for rank in sorted(waiting, key=int):
        steps = waiting[rank]
        numbers = sorted(map(int, steps))
        ready = numbers if window.job.ended else numbers[:-_BEHIND]
        for number in ready:
            last[rank] = number
            yield _made(number, int(rank), steps.pop(str(number)))


def _take(table: str, rows: Table, waiting: dict[str, dict[str, _Waiting]], last: dict[str, int]) -> None:
    for row in rows.to_rows():
        rank, number = str(row["rank"]), int(row["step"])
        if number < 0 or number <= last.get(rank, -1):
            continue
        time = int(row["time"]) + int(row.get("duration", 0))
        step = waiting.setdefault(rank, {}).setdefault(
            str(number), {"time": time, "node": row["node"], "scalars": {}, "tensors": {}}
        )
        step["time"] = min(step["time"], time)
        if table == "scalars":
            step["scalars"][row["name"]] = _kept(row["value"])
        elif table == "steps":
            step["seconds"] = row["duration"] / 1e9
        else:
            step["tensors"][row["name"]] = {name: _kept(row[name]) for name in (*COUNTS, *STATISTICS)}


def _made(number: int, rank: int, kept: _Waiting) -> Step:
    return Step(
        number=number,
        rank=rank,
        node=kept["node"],
        time=kept["time"],
        scalars={name: float(value) for name, value in kept["scalars"].items()},
        tensors={name: _statistics(values) for name, values in kept["tensors"].items()},
        seconds=kept.get("seconds"),
    )


def _statistics(kept: Mapping[str, float | str]) -> dict[str, float]:
    """Return the stored statistics and those that follow from them, over finite elements."""
    values = {name: float(value) for name, value in kept.items()}
    finite = values["count"] - values["nan"] - values["posinf"] - values["neginf"]
    square = values["std"] ** 2 + values["mean"] ** 2
    return {
        **values,
        "var": values["std"] ** 2,
        "rms": math.sqrt(square),
        "l2": math.sqrt(finite * square) if finite > 0 else math.nan,
        "abs_max": max(abs(values["min"]), abs(values["max"])),
    }


def _kept(value: float) -> float | str:
    """Return a number as JSON can hold it: NaN and infinity as texts, which `float` reads."""
    return value if math.isfinite(value) else repr(float(value))
