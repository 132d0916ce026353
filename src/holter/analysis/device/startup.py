"""Leaves the start-up out of a trace: first steps that take much longer than those after them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.device.judged_steps import steps_of
from holter.analysis.steps.warmup import by_rank

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from holter.schema.table import Table

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
