"""Device time of steps and annotated ranges, and the division of a step among roles."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from holter.analysis.device.kernel_statistics import duration_statistics
from holter.analysis.device.work import (
    COMMUNICATION,
    COMPUTE,
    MEMORY,
    check_definition,
    device_work,
    hta_rounded,
    launch_of,
    matching,
)
from holter.analysis.grouping import groups
from holter.analysis.host.operator_tree import DEVICE_SIDE
from holter.analysis.intervals import Intervals, difference, measure, union
from holter.schema.table import Table, objects

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from holter.analysis.device.work import Ints

ROLES = ("kernel", "memcpy", "memset", "runtime", "data_loading", "cpu", "other")


def device_ranges(tables: Mapping[str, Table], begin: Ints, end: Ints, rank: Ints) -> Table:
    """Return the device time of the work launched within ranges of the host.

    A range on the device lasts from the begin of the first work launched inside it to the end of the last, on
    whatever thread of that rank, as SageMaker Profiler counts a step.

    Args:
        tables: `kernels`, `memory_operations`, `launches`.
        begin: When each range of the host began, ns.
        end: When it ended.
        rank: Its rank.

    Returns:
        One row a range: time, duration (ns), works (how many kernels, copies and fills). Without any, works
        and duration are 0 and time is the host's.
    """
    work, launches = device_work(tables), tables.get("launches") or Table.empty("launches")
    called = launch_of(work, launches)
    known = np.flatnonzero(called >= 0)
    asked = launches["time"][called[known]].astype(np.int64) if len(known) else np.empty(0, np.int64)
    first, last = np.array(begin, dtype=np.int64), np.array(begin, dtype=np.int64)
    works = np.zeros(len(first), dtype=np.int64)
    for one in np.unique(rank).tolist():
        rows = np.flatnonzero(rank == one)
        mine = work.rank[known] == one
        order = np.argsort(asked[mine], kind="stable")
        when = asked[mine][order]
        starts, ends = work.begin[known][mine][order], work.end[known][mine][order]
        low, high = np.searchsorted(when, begin[rows]), np.searchsorted(when, end[rows])
        some = high > low
        if not some.any():
            continue
        # reduceat takes from each even edge to the odd one behind it; a last edge at the end needs a spare.
        edges = np.stack([low[some], high[some]], axis=1).ravel()
        top = np.iinfo(np.int64).max
        first[rows[some]] = np.minimum.reduceat(np.append(starts, top), edges)[::2]
        last[rows[some]] = np.maximum.reduceat(np.append(ends, -top), edges)[::2]
        works[rows] = high - low
    return Table({"time": first, "duration": last - first, "works": works})


def device_step_times(tables: Mapping[str, Table]) -> Table:
    """Return the steps with their time on the accelerator.

    Returns:
        rank, step, time and duration (of the host), device_time, device_duration, works.
    """
    spans = tables.get("spans") or Table.empty("spans")
    return _with_device_time(tables, spans.where(spans["phase"] == "step").sorted("time"), "step")


def annotated(tables: Mapping[str, Table], pattern: re.Pattern[str]) -> Table:
    """Return the annotated ranges whose name a pattern finds, with their time on the accelerator.

    Returns:
        rank, name, time, duration, device_time, device_duration, works.
    """
    operators = tables.get("operators") or Table.empty("operators")
    operators = operators.where(operators["kind"] == "annotation")
    chosen = operators.where(matching(operators["name"], pattern.search))
    return _with_device_time(tables, chosen, "name")


def _with_device_time(tables: Mapping[str, Table], rows: Table, called: str) -> Table:
    begin = rows["time"].astype(np.int64)
    found = device_ranges(tables, begin, begin + rows["duration"], rows["rank"])
    return Table(
        {
            **{name: rows[name] for name in ("rank", called, "time", "duration")},
            "device_time": found["time"],
            "device_duration": found["duration"],
            "works": found["works"],
        }
    )


def annotation_table(tables: Mapping[str, Table], *, definition: str = "all") -> Table:
    """Add up the ranges that people named, name by name.

    Args:
        tables: `operators`.
        definition: `all`, or `hta`: whole microseconds, and with two steps and more only what began
            before the last one of its rank.

    Returns:
        rank, name, count, total_ns, mean_ns, min_ns, max_ns, the longest in all first.

    Raises:
        ValueError: No such definition.
    """
    check_definition(definition, ("all", "hta"))
    operators = tables.get("operators") or Table.empty("operators")
    rows = operators.where(operators["kind"] == "annotation")
    if definition == "hta":
        rows = _before_the_last_step(rows)
    begin = rows["time"].astype(np.int64)
    end = begin + rows["duration"]
    if definition == "hta":
        begin, end = hta_rounded(begin, end)
    found = groups(rows["rank"], rows["name"])
    code = np.empty(rows.rows, np.int64)
    for number, at in enumerate(found.values()):
        code[at] = number
    count, statistics = duration_statistics(code, end - begin, len(found))
    del statistics["deviation_ns"]
    head = {"rank": np.array([rank for rank, _ in found], np.int64), "name": objects([n for _, n in found])}
    order = np.argsort(-statistics["total_ns"], kind="stable")
    return Table({**head, "count": count, **statistics}).where(order)


def _before_the_last_step(rows: Table) -> Table:
    steps = rows.where(matching(rows["name"], lambda name: name.startswith("ProfilerStep")))
    keep = np.ones(rows.rows, bool)
    for rank in np.unique(steps["rank"]).tolist():
        begins = steps["time"][steps["rank"] == rank]
        if len(begins) > 1:
            keep &= (rows["rank"] != rank) | (rows["time"] < begins.max())
    return rows.where(keep)


class Histogram(NamedTuple):
    """How often durations lie in each of some stretches of equal length."""

    edges_ns: NDArray[np.float64]
    """One more than counts."""
    counts: Ints
    outliers: Ints
    """Which durations lie above the third quartile by three times the distance between the quartiles."""


def histogram(durations: ArrayLike, bins: int = 20) -> Histogram:
    """Count durations, ns; raises `ValueError` for less than one bin. Without durations all counts are 0."""
    if bins < 1:
        raise ValueError(f"bins is {bins}, but must be at least 1")
    values = np.asarray(durations, dtype=np.float64)
    counts, edges = np.histogram(values, bins=bins)
    low, high = np.percentile(values, (25, 75)) if len(values) else (0.0, 0.0)
    return Histogram(edges, counts.astype(np.int64), np.flatnonzero(values > high + 3 * (high - low)))


def step_roles(tables: Mapping[str, Table]) -> Table:
    """Divide each step among `ROLES`, each moment to the first that fits: as the TensorBoard plug-in does.

    Kernel, Memcpy and Memset are the plug-in's numbers. Its others are not: in traces from 2022 on it does
    not know the categories any more, gives 0 for Runtime and DataLoader, and their time to CPU Exec and
    Other; Communication it finds in part only, and only where no kernel runs.

    Returns:
        rank, step, and one column a role, ns; they add up to the step.
    """
    spans = tables.get("spans") or Table.empty("spans")
    steps = spans.where(spans["phase"] == "step").sorted("time")
    operators, launches = (tables.get(name) or Table.empty(name) for name in ("operators", "launches"))
    work = device_work(tables)
    names = np.array(work.names, dtype=object)[work.name] if len(work.names) else work.name
    fills = (work.kind == MEMORY) & (names == "Memset")
    operators = operators.where(~np.isin(operators["kind"], DEVICE_SIDE))
    kind = operators["kind"]
    loads = matching(operators["name"], lambda name: name.startswith("enumerate(DataLoader)"))
    sets = {
        "kernel": (work, np.isin(work.kind, (COMPUTE, COMMUNICATION))),
        "memcpy": (work, (work.kind == MEMORY) & ~fills),
        "memset": (work, fills),
    }
    columns = {name: np.zeros(steps.rows, dtype=np.int64) for name in ROLES}
    for rank in np.unique(steps["rank"]).tolist():
        rows = steps["rank"] == rank
        begin = steps["time"][rows].astype(np.int64)
        end = begin + steps["duration"][rows]
        left = union(begin, end)
        own = operators["rank"] == rank
        covered = {
            name: union(w.begin[mask & (w.rank == rank)], w.end[mask & (w.rank == rank)])
            for name, (w, mask) in sets.items()
        }
        mine = launches.where(launches["rank"] == rank)
        covered["runtime"] = union(
            np.concatenate([mine["time"], operators["time"][own & (kind == "runtime")]]),
            np.concatenate([_end(mine), _end(operators)[own & (kind == "runtime")]]),
        )
        covered["data_loading"] = _of(operators, own & loads)
        covered["cpu"] = _of(operators, own & (kind == "operator"))
        for name in ROLES[:-1]:
            rest = difference(left, covered[name])
            columns[name][rows] = measure(left, begin, end) - measure(rest, begin, end)
            left = rest
        columns["other"][rows] = measure(left, begin, end)
    return Table({"rank": steps["rank"], "step": steps["step"], **columns})


def _end(rows: Table) -> Ints:
    return np.asarray(rows["time"] + rows["duration"], dtype=np.int64)


def _of(rows: Table, mask: NDArray[np.bool_]) -> Intervals:
    return union(rows["time"][mask], _end(rows)[mask])
