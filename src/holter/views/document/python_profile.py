"""Builds tables of functions and flame graphs of Python code from the profiling windows of a job."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from holter.analysis.host.python_functions import (
    calls,
    flame_of_stacks,
    functions,
    functions_of_stacks,
)

if TYPE_CHECKING:
    from holter.store.trial import Trial

MOST = 1000
"""Functions in the table."""
_PHASES = ("data_loading", "forward", "loss", "backward", "optimizer", "checkpoint", "other")


def python_profile(
    trial: Trial,
    *,
    steps: tuple[int, int] | None = None,
    rank: int | None = None,
    mode: str | None = None,
    phase: str | None = None,
    timer: str | None = None,
) -> list[dict[str, Any]]:
    """Return the results of the Python profilers, one document for each profiler and timer.

    Args:
        trial: The job.
        steps: First step, and the step before which to end; None for all.
        rank: The only rank; None for all, added up.
        mode: The only mode, as `train` or `eval`.
        phase: The only part of a step, as `forward` or `data_loading`.
        timer: The only timer of cProfile.

    Returns:
        Documents with `profiler`, `timer` (None for samples), `functions` (the longest first, with `name`,
        `self_ns`, `total_ns`, `calls`, `primitive_calls`, `samples`), `left_out` (how many more there are);
        of cProfile also `calls` (`caller`, `name`, `calls`, `total_ns`, `self_ns`), of samples `flame`
        (`name`, `value` in ns, `children`). Times of different timers are in different documents.
    """
    where = _where(steps, rank, mode, phase)
    found = []
    called = trial.table("python_functions", where=where)
    edges = trial.table("python_calls", where=where)
    for one in sorted(set(called["timer"].tolist())):
        if timer in (None, one):
            rows, between = (table.where(table["timer"] == one) for table in (called, edges))
            told = [asdict(call) for call in calls(between)[:MOST]]
            found.append({**_document("cprofile", one, functions(rows)), "calls": told})
    sampled = trial.table("python_stacks", where=where)
    outside = sampled["phase"] == "any"
    for profiler, chosen in (("pyinstrument", ~outside), ("py-spy", outside)):
        rows = sampled.where(chosen)
        if rows.rows and timer is None:
            flame = flame_of_stacks(rows).to_json()
            found.append({**_document(profiler, None, functions_of_stacks(rows)), "flame": flame})
    return found


def segments(trial: Trial) -> list[dict[str, Any]]:
    """Return the profiled parts of steps in order of time.

    Returns:
        `time`, `duration` (ns), `rank`, `step` (-1 before the first), `mode`, `phase`, `profiler`, `timer`
        (empty for samples), `functions` (how many rows there are of it).
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


def _document(profiler: str, timer: str | None, listed: list[Any]) -> dict[str, Any]:
    return {
        "profiler": profiler,
        "timer": timer,
        "functions": [asdict(one) for one in listed[:MOST]],
        "left_out": max(len(listed) - MOST, 0),
    }


def _where(
    steps: tuple[int, int] | None, rank: int | None, mode: str | None, phase: str | None
) -> str | None:
    terms = []
    if steps is not None:
        terms.append(f"step >= {int(steps[0])} AND step < {int(steps[1])}")
    if rank is not None:
        terms.append(f"rank = {int(rank)}")
    for name, value in (("mode", mode), ("phase", phase)):
        if value is not None:
            if not value.replace("_", "").isalpha():
                raise ValueError(f"{name} is {value!r}; expected a name as in {', '.join(_PHASES)}")
            terms.append(f"{name} = '{value}'")
    return " AND ".join(terms) or None
