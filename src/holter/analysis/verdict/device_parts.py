"""Divides the time of one accelerator: what it computes and copies, and what it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.device.work import COMMUNICATION, COMPUTE, MEMORY
from holter.analysis.host.host_waits import blamed as doing
from holter.analysis.host.host_waits import host_waits
from holter.analysis.intervals import Intervals, difference, measure, union
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.analysis.device.work import Ints, Work
    from holter.analysis.host.operator_tree import Host

PARTS = ("compute", "communication", "copies", "data_loading", "checkpoint", "allocation", "host", "idle")
"""Parts of a device's time. Each moment counts once, for the first part that fits:

- `compute`: kernels that compute.
- `communication`: exposed communication.
- `copies`: copies and fills.
- `data_loading`, `checkpoint`, `allocation`, `host`: the device idles while the host waits for batches,
  writes checkpoints, allocates memory of the device, or does anything else before it launches more work.
- `idle`: the rest, as kernel start-up, dependencies, and the end of the window.
"""


def device_parts(
    work: Work,
    window: tuple[int, int],
    spent: list[Intervals],
    called: Ints,
    tree: Host,
    tables: Mapping[str, Table],
) -> dict[str, Any]:
    """Divide the time of one device.

    Args:
        work: What the device ran.
        window: Begin and end of what is judged.
        spent: When the host waited for batches, wrote checkpoints and allocated memory.
        called: The rows of the launches of the work.
        tree: Result of `host`.
        tables: launches, memory_operations and syncs of the trace.

    Returns:
        Shares of the window in percent; `window` in ns; `blamed`: part → what the host did meanwhile, ns.
    """
    begin, end = window
    rank, device = int(work.rank[0]), int(work.device[0])
    whole = Intervals(np.array([begin]), np.array([end]))

    def within(*kinds: int) -> Intervals:
        some = np.isin(work.kind, kinds)
        b, e = np.clip(work.begin[some], begin, end), np.clip(work.end[some], begin, end)
        return union(b, e)

    compute, communication = within(COMPUTE), within(COMMUNICATION)
    both = within(COMPUTE, COMMUNICATION)
    busy = within(COMPUTE, COMMUNICATION, MEMORY)
    idle = difference(whole, busy)
    launches = tables.get("launches") or Table.empty("launches")
    gap_waits = host_waits(work, window, launches, called)
    waits = gap_waits.joined
    parts = {
        "compute": compute.length,
        "communication": both.length - compute.length,
        "copies": busy.length - both.length,
    }
    rest, blamed = idle, {}
    for name, these in zip(
        ("data_loading", "checkpoint", "allocation", "host"), [*spent, waits], strict=True
    ):
        left = difference(rest, these)
        parts[name] = rest.length - left.length
        if parts[name]:
            blamed[name] = doing(tree, rank, gap_waits, difference(rest, left))
        rest = left
    parts["idle"] = rest.length
    total = max(end - begin, 1)
    copies = tables.get("memory_operations") or Table.empty("memory_operations")
    here = (copies["rank"] == rank) & (copies["device"] == device)
    to_device = copies.where(here & (copies["kind"] == "h2d"))
    h2d = difference(covered(to_device), both)
    after = _after_sync(tables, rank, waits)
    return {
        "window": total,
        "parts": {name: 100.0 * ns / total for name, ns in parts.items()},
        "busy": 100.0 * busy.length / total,
        "communication": 100.0 * communication.length / total,
        "h2d": 100.0 * int(measure(h2d, [begin], [end])[0]) / total,
        "loading": 100.0 * int(measure(spent[0], [begin], [end])[0]) / total,
        "after_sync": 100.0 * after / total,
        "blamed": blamed,
    }


def _after_sync(tables: Mapping[str, Table], rank: int, waits: Intervals) -> int:
    """Return the device's idle time in gaps that begin while the host waits for the device, ns."""
    syncs = tables.get("syncs") or Table.empty("syncs")
    mine = syncs.where((syncs["rank"] == rank) & (syncs["duration"] > 0))
    if not mine.rows or not len(waits.begin):
        return 0
    during = measure(covered(mine), waits.begin, waits.begin + 1) > 0
    return int((waits.end - waits.begin)[during].sum())


def covered(rows: Table) -> Intervals:
    """Return when at least one of some events ran."""
    return union(rows["time"], rows["time"] + rows["duration"])
