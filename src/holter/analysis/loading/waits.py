"""Relates waits for batches to the work of the loader's workers at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.grouping import groups
from holter.analysis.steps.warmup import by_rank
from holter.schema.phases import ITERATOR_START

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.schema.table import Table


def within(spans: Table, steps: Table) -> Table:
    """Keep the spans that begin while their rank is in one of the steps."""
    keep = np.zeros(spans.rows, dtype=bool)
    for rows in by_rank(steps):
        mine = spans["rank"] == steps["rank"][rows[0]]
        begin, end = steps["time"][rows], (steps["time"] + steps["duration"])[rows]
        at = np.searchsorted(begin, spans["time"][mine], side="right") - 1
        keep[mine] = (at >= 0) & (spans["time"][mine] < end[np.maximum(at, 0)])
    return spans.where(keep)


def holding(waits: Table, fetches: Table) -> Table:
    """Keep the waits in which a fetch of the same rank begins."""
    keep = np.zeros(waits.rows, dtype=bool)
    for rank in np.unique(waits["rank"]).tolist():
        mine = waits["rank"] == rank
        begun = np.sort(fetches["time"][fetches["rank"] == rank])
        begin, end = waits["time"][mine], (waits["time"] + waits["duration"])[mine]
        keep[mine] = np.searchsorted(begun, begin) < np.searchsorted(begun, end)
    return waits.where(keep)


def first_waits(waits: Table) -> Table:
    """Keep the starts of loaders' iterators, each with the wait for its first batch."""
    ordered = waits.sorted("rank", "value", "time")
    starts = ordered["name"] == ITERATOR_START
    keep = starts.copy()
    same = (np.diff(ordered["rank"]) == 0) & (np.diff(ordered["value"]) == 0)
    keep[1:] |= starts[:-1] & same
    return ordered.where(keep)


def split_waits(waits: Table, fetches: Table, collates: Table) -> dict[str, float] | None:
    """Split the waits by what the workers do; fractions that add up to 1."""
    total = {"fetch": 0.0, "collate": 0.0}
    waited = 0
    for rank in np.unique(waits["rank"]).tolist():
        mine = waits.where(waits["rank"] == rank)
        work, join = (t.where(t["rank"] == rank) for t in (fetches, collates))
        if not work.rows:
            continue
        # Nanoseconds since the epoch do not fit a float: count from here.
        zero = int(min(mine["time"].min(), work["time"].min()))
        at, building, joining = _activity(work, join, zero)
        begin, end = mine["time"] - zero, mine["time"] + mine["duration"] - zero
        for name, curve in (("fetch", building), ("collate", joining)):
            total[name] += float((np.interp(end, at, curve) - np.interp(begin, at, curve)).sum())
        waited += int(mine["duration"].sum())
    if not waited:
        return None
    parts = {name: ns / waited for name, ns in total.items()}
    return {**parts, "queue": max(1.0 - sum(parts.values()), 0.0)}


def _activity(work: Table, join: Table, zero: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Integrate over time which share of the busy workers builds, and which joins samples to a batch."""
    edges, fetching, joining = [], [], []
    for table, is_join in ((work, 0), (join, 1)):
        for time, sign in ((table["time"], 1), (table["time"] + table["duration"], -1)):
            edges.append(time - zero)
            fetching.append(np.full(table.rows, sign * (1 - is_join)))
            joining.append(np.full(table.rows, sign * is_join))
    at = np.concatenate(edges)
    order = np.argsort(at, kind="stable")
    at = at[order]
    busy, joins = np.cumsum(np.concatenate(fetching)[order]), np.cumsum(np.concatenate(joining)[order])
    busy = np.maximum(busy, joins)
    share = np.divide(joins, busy, out=np.zeros(len(at)), where=busy > 0)
    length = np.diff(at)
    join_curve = np.concatenate([[0.0], np.cumsum(share[:-1] * length)])
    fetch_curve = np.concatenate([[0.0], np.cumsum(((busy > 0) - share)[:-1] * length)])
    return at, fetch_curve, join_curve


def outside(stacks: Table, collates: Table) -> Table:
    """Leave out the stack samples that were taken while the same worker collated."""
    return stacks.where(~_holds(collates, stacks))


def inside(work: Table, fetches: Table) -> Table:
    """Keep the work that begins within a fetch of the same worker."""
    return work.where(_holds(fetches, work))


def _holds(around: Table, work: Table) -> NDArray[np.bool_]:
    """Return which rows of `work` begin within a span of `around` of the same rank and worker."""
    held = np.zeros(work.rows, dtype=bool)
    for (rank, worker), mine in groups(work["rank"], work["worker"]).items():
        outer = around.where((around["rank"] == rank) & (around["worker"] == worker)).sorted("time")
        if outer.rows:
            at = np.searchsorted(outer["time"], work["time"][mine], side="right") - 1
            end = (outer["time"] + outer["duration"])[np.maximum(at, 0)]
            held[mine] = (at >= 0) & (work["time"][mine] < end)
    return held
