"""Finds the steps of a trace, and the window that is judged of each device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.device.time_breakdown import split
from holter.analysis.device.work import device_work
from holter.schema.table import Table
from holter.schema.traces import INFERRED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.analysis.device.work import Work


def steps_of(tables: Mapping[str, Table]) -> Table:
    """Return the spans of a trace that are steps."""
    spans = tables.get("spans") or Table.empty("spans")
    return spans.where(spans["phase"] == "step")


def inferred_from(steps: Table) -> str:
    """Return what the steps are inferred from; empty for steps that the trace marks."""
    names = dict.fromkeys(steps["name"].tolist()) if steps.rows and "name" in steps else {}
    return ", ".join(name.removeprefix(INFERRED) for name in names if name.startswith(INFERRED))


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
