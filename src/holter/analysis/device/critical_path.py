"""Computes the critical path: the chain of dependent pieces of work that fills a trace's time.

Walked back from the end of the last work. Work that began right behind other work waited for that; work that
was asked for only after everything before it had ended waited for the host; and the host, where it waited for
the device, for the work that ended then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.device.time_breakdown import split
from holter.analysis.device.work import KINDS, device_work, launch_of
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.analysis.device.work import Ints, Work

PARTS = (*KINDS, "kernel_delay", "launch_delay", "sync", "host")
"""What a piece of the path is: work of a kind; from the end of one work to the begin of the next; from
a launch to its run; from the end of work until the host noticed; or what the host did."""


_COLUMNS = {"time": np.int64, "duration": np.int64, "part": object, "name": object}


def critical_path(tables: Mapping[str, Table]) -> Table:
    """Return the critical path of the busiest device of the lowest rank.

    It is a path by time, over what a trace tells: waits of one stream for another are taken for waits for
    what ended last. HTA's critical path runs through a graph of operators within a chosen annotation,
    and gives other shares.

    Args:
        tables: `kernels`, `memory_operations`, `launches`, `syncs`; `spans` with the steps, if there are any.

    Returns:
        time, duration, part (one of `PARTS`), name (of the work), in the order of time, without gaps; no rows
        without device work.
    """
    work = device_work(tables)
    launches, syncs = (tables.get(name) or Table.empty(name) for name in ("launches", "syncs"))
    called = launch_of(work, launches)
    asked = np.where(called >= 0, launches["time"][called] if launches.rows else 0, -1).astype(np.int64)
    number = np.arange(len(called))
    devices = list(split(work._replace(correlation=number)))
    if not devices:
        return Table.of_tuples(_COLUMNS, [])
    lowest = min(key[0] for key, _ in devices)
    key, mine = max((d for d in devices if d[0][0] == lowest), key=lambda d: int(d[1].duration.sum()))
    own = syncs.where((syncs["rank"] == key[0]) & (syncs["duration"] > 0))
    spans = tables.get("spans") or Table.empty("spans")
    steps = spans.where((spans["phase"] == "step") & (spans["rank"] == key[0]))
    start = int(mine.begin.min())
    if steps.rows:
        start = min(start, int(steps["time"].min()))
    return Table.of_tuples(_COLUMNS, _walk(mine, asked[mine.correlation], own, start))


def _walk(work: Work, asked: Ints, syncs: Table, start: int) -> list[tuple[int, int, str, str]]:
    by_end = np.argsort(work.end, kind="stable")
    ends = work.end[by_end]
    order = np.argsort(syncs["time"] + syncs["duration"], kind="stable")
    sync_begin = syncs["time"][order].tolist()
    sync_end = (syncs["time"] + syncs["duration"])[order].tolist()

    def before(time: int) -> int:
        """Return the work that ended last, at `time` at the latest; -1 for none."""
        at = int(np.searchsorted(ends, time, side="right")) - 1
        return int(by_end[at]) if at >= 0 else -1

    path: list[tuple[int, int, str, str]] = []

    def add(begin: int, end: int, part: str, name: str = "") -> None:
        if end > begin:
            path.append((begin, end - begin, part, name))

    current, now = int(np.argmax(work.end)), int(work.end.max())
    while current >= 0 and now > start:
        begin = min(int(work.begin[current]), now)
        add(max(begin, start), now, KINDS[int(work.kind[current])], work.names[int(work.name[current])])
        earlier = before(begin)
        free = int(work.end[earlier]) if earlier >= 0 else -1
        if earlier >= 0 and asked[current] <= free:
            add(max(free, start), begin, "kernel_delay")
            # Work of no length would lead back to itself.
            current, now = (earlier, free) if free < now else (-1, begin)
            continue
        launched = min(int(asked[current]), begin) if asked[current] >= 0 else begin
        add(max(launched, start), begin, "launch_delay")
        current, now = _host(launched, start, sync_begin, sync_end, before, work, add)
    add(start, now, "host")
    return path[::-1]


def _host(
    time: int, start: int, begins: list[int], ends: list[int], before: Any, work: Work, add: Any
) -> tuple[int, int]:
    """Follow the host back to where it waited for the device; returns the work it waited for and its end."""
    for at in range(int(np.searchsorted(ends, time, side="right")) - 1, -1, -1):
        if ends[at] <= start:
            break
        waited = before(ends[at])
        if waited >= 0 and begins[at] < int(work.end[waited]):
            add(max(ends[at], start), time, "host")
            add(max(int(work.end[waited]), start), ends[at], "sync")
            return waited, int(work.end[waited])
    return -1, time


def path_shares(path: Table) -> dict[str, float]:
    """Return the share of each part of a critical path, percent, the largest first."""
    sums = {part: int(path["duration"][path["part"] == part].sum()) for part in PARTS}
    whole = max(sum(sums.values()), 1)
    return {part: 100.0 * ns / whole for part, ns in sorted(sums.items(), key=lambda x: -x[1]) if ns}
