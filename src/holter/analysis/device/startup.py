"""Chooses what is judged of a trace: whole steps, without the slow first ones of its start-up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.device.time_breakdown import split
from holter.analysis.device.work import device_work
from holter.analysis.steps.warmup import by_rank
from holter.schema.table import Table
from holter.schema.traces import INFERRED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from holter.analysis.device.work import Work

SLOW = 2.0
"""A step of the start-up takes more than this many times the median of the later steps."""
LEAST_STEADY = 2
"""At least this many steps are judged."""
_CUT = ("kernels", "memory_operations", "syncs", "operators")


@dataclass(frozen=True, kw_only=True)
class Startup:
    """The start-up of a trace: of the rank whose start-up takes longest."""

    steps: int
    """Number of steps."""
    ms: float
    """Their duration."""
    usual_ms: float
    """Median duration of the later steps."""

    @property
    def text(self) -> str:
        """Name the steps for people."""
        return "the first step" if self.steps == 1 else f"the first {self.steps} steps"


def steps_of(tables: Mapping[str, Table]) -> Table:
    """Return the spans of a trace that are steps."""
    spans = tables.get("spans") or Table.empty("spans")
    return spans.where(spans["phase"] == "step")


def inferred_from(steps: Table) -> str:
    """Return what the steps are inferred from; empty for steps that the trace marks."""
    names = dict.fromkeys(steps["name"].tolist()) if steps.rows and "name" in steps else {}
    return ", ".join(name.removeprefix(INFERRED) for name in names if name.startswith(INFERRED))


def without_startup(tables: Mapping[str, Table]) -> tuple[dict[str, Table], Startup | None]:
    """Return the tables of a trace without the steps of its start-up, and its start-up; None if it has none.

    A first step loads kernels, makes streams and handles, tunes and compiles. It says nothing about the steps
    that follow. Launches stay: work that runs in the later steps may have been launched before them.
    """
    steps = steps_of(tables)
    begins: dict[int, int] = {}
    found: Startup | None = None
    for rows in by_rank(steps):
        mine = steps.where(rows)
        duration = mine["duration"].astype(np.int64)
        slow = _slow(duration)
        if slow:
            begins[int(mine["rank"][0])] = int(mine["time"][slow])
            ms = float(duration[:slow].sum()) / 1e6
            if found is None or ms > found.ms:
                found = Startup(steps=slow, ms=ms, usual_ms=float(np.median(duration[slow:])) / 1e6)
    if found is None:
        return dict(tables), None
    kept = {name: _after(table, begins) if name in _CUT else table for name, table in tables.items()}
    spans = tables["spans"]
    kept["spans"] = spans.where(spans["time"] >= _begin(spans, begins))
    return kept, found


def _slow(duration: NDArray[np.int64]) -> int:
    """Return how many steps at the begin are slow, one after the other."""
    half = len(duration) // 2
    if len(duration) - half < LEAST_STEADY:
        return 0
    quick = np.flatnonzero(duration[:half] <= SLOW * np.median(duration[half:]))
    return int(quick[0]) if len(quick) else half


def _after(rows: Table, begins: Mapping[int, int]) -> Table:
    return rows.where(rows["time"] + rows["duration"] > _begin(rows, begins))


def _begin(rows: Table, begins: Mapping[int, int]) -> NDArray[np.int64]:
    """Return of each row the begin of what is judged of its rank."""
    begin = np.full(rows.rows, np.iinfo(np.int64).min)
    for rank, time in begins.items():
        begin[rows["rank"] == rank] = time
    return begin


def judged(tables: Mapping[str, Table]) -> list[tuple[int, int, int]]:
    """Return of each device its rank, and the begin and end of what is judged of it, ns."""
    steps = steps_of(tables)
    return [(rank, *judged_window(steps, rank, mine)) for (rank, _), mine in split(device_work(tables))]


def judged_window(steps: Table, rank: int, work: Work) -> tuple[int, int]:
    """Return begin and end of the judged interval: whole steps, because loading precedes their first kernel.

    Without steps it is the time from the first begin to the last end of the device's work.
    """
    mine = steps.where(steps["rank"] == rank)
    first, last = int(work.begin.min()), int(work.end.max())
    if mine.rows:
        begin, end = int(mine["time"].min()), int((mine["time"] + mine["duration"]).max())
        if begin < last and first < end:
            return begin, end
    return first, last
