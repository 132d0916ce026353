"""Builds tables of functions and flame graphs of Python code from the profiling windows of a job."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, NotRequired, TypedDict, cast

import numpy as np

from holter.analysis.host.python_functions import (
    calls,
    flame_of_stacks,
    functions,
    functions_of_stacks,
)
from holter.views.flames import FlameSelection

if TYPE_CHECKING:
    from holter.analysis.host.python_functions import Function
    from holter.store.trial import Trial
    from holter.views.document.types.values import TableRow
    from holter.views.flames import FlameTree

MOST = 1000
"""Functions in the table."""
_PHASES = ("data_loading", "forward", "loss", "backward", "optimizer", "checkpoint", "other")


class PythonProfile(TypedDict):
    """The result of one Python profiler with one timer; times in ns."""

    profiler: str
    timer: str | None
    """None for samples."""
    functions: list[TableRow]
    """The longest first: `name`, `self_ns`, `total_ns`, `calls`, `primitive_calls`, `samples`."""
    left_out: int
    """Number of functions beyond the list."""
    calls: NotRequired[list[TableRow]]
    """Of cProfile: `caller`, `name`, `calls`, `total_ns`, `self_ns`."""
    flame: NotRequired[FlameTree]
    """Of samples."""


def python_profile(
    trial: Trial,
    *,
    steps: tuple[int, int] | None = None,
    rank: int | None = None,
    mode: str | None = None,
    phase: str | None = None,
    timer: str | None = None,
) -> list[PythonProfile]:
    """Return the results of the Python profilers, one document for each profiler and timer.

    The other arguments select steps (from the first to before the second), a rank, a mode such as `train`, a
    part of a step such as `forward`, and a timer of cProfile.
    """
    for name, value in (("mode", mode), ("phase", phase)):
        if value is not None and not value.replace("_", "").isalpha():
            raise ValueError(f"{name} is {value!r}; expected a name as in {', '.join(_PHASES)}")
    first, last = (steps[0], steps[1] - 1) if steps else (None, None)
    where = FlameSelection(first, last, rank, mode, phase).where("rank", "mode", "phase")
    found: list[PythonProfile] = []
    called = trial.table("python_functions", where=where)
    edges = trial.table("python_calls", where=where)
    for one in sorted(set(called["timer"].tolist())):
        if timer in (None, one):
            rows, between = (table.where(table["timer"] == one) for table in (called, edges))
            edges_of = [asdict(call) for call in calls(between)[:MOST]]
            found.append({**_document("cprofile", one, functions(rows)), "calls": edges_of})
    sampled = trial.table("python_stacks", where=where)
    outside = {"any": "py-spy", "program": "holter"}
    told = np.array([outside.get(one, "pyinstrument") for one in sampled["phase"].tolist()])
    for profiler in ("pyinstrument", *outside.values()):
        rows = sampled.where(told == profiler)
        if rows.rows and timer is None:
            flame = cast("FlameTree", flame_of_stacks(rows).to_json())
            found.append({**_document(profiler, None, functions_of_stacks(rows)), "flame": flame})
    return found


def segments(trial: Trial) -> list[TableRow]:
    """Return the profiled parts of steps in order of time.

    The keys are `time`, `duration` (ns), `rank`, `step` (-1 before the first), `mode`, `phase`, `profiler`,
    `timer` (empty for samples) and `functions` (the number of rows).
    """
    found = []
    for table, profiler, timer in (
        ("python_functions", "cprofile", "timer"),
        ("python_stacks", "pyinstrument", "''"),
    ):
        rows = trial.sql(
            f"SELECT time, duration, rank, step, mode, phase, {timer} AS timer, count(*) AS functions "  # noqa: S608
            f"FROM {table} GROUP BY ALL ORDER BY time"
        )
        found += [{**row, "profiler": profiler} for row in rows.to_rows()]
    return sorted(found, key=lambda one: one["time"])


def _document(profiler: str, timer: str | None, listed: list[Function]) -> PythonProfile:
    return {
        "profiler": profiler,
        "timer": timer,
        "functions": [asdict(one) for one in listed[:MOST]],
        "left_out": max(len(listed) - MOST, 0),
    }
