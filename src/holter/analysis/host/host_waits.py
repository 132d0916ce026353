"""Finds what the host does while an accelerator waits for launches."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from holter.analysis.host.operator_tree import Host, own
from holter.analysis.intervals import Intervals, difference, gaps, measure, union

if TYPE_CHECKING:
    from holter.analysis.device.work import Ints, Work
    from holter.schema.table import Table


class Waits(NamedTuple):
    """When a device waited for the host to ask, gap by gap, and the thread that asked in the end."""

    begin: Ints
    end: Ints
    thread: Ints

    @property
    def joined(self) -> Intervals:
        """The gaps as a set."""
        return union(self.begin, self.end)


def host_waits(work: Work, window: tuple[int, int], launches: Table, called: Ints) -> Waits:
    """Find the gaps that wait for the host.

    A gap counts until the launch of what ends it returns; before the first work and after the last one of the
    window the device waits too.
    """
    found = gaps(work.begin, work.end)
    first, last = int(np.argmin(work.begin)), int(np.argmax(work.end))
    begin = np.concatenate([[window[0]], found.begin, [work.end[last]]])
    end = np.concatenate([[work.begin[first]], found.end, [max(window[1], int(work.end[last]))]])
    launch = called[work.name[np.concatenate([[first], found.next, [last]])]]
    if launches.rows:
        returned = (launches["time"] + launches["duration"])[launch]
        thread = np.where(launch >= 0, launches["thread"][launch], -1)
        end[:-1] = np.minimum(end, np.where(launch >= 0, returned, begin))[:-1]
    else:
        thread, end[:-1] = launch, begin[:-1]
    begin, end = np.clip(begin, *window), np.clip(end, *window)
    some = end > begin
    return Waits(begin[some], end[some], thread[some])


def blamed(tree: Host, rank: int, waits: Waits, within: Intervals) -> dict[str, float]:
    """Share waits out among what the asking thread did meanwhile, each moment to the innermost event, ns."""
    spent: dict[str, float] = {}
    for thread in np.unique(waits.thread).tolist():
        own_waits = union(waits.begin[waits.thread == thread], waits.end[waits.thread == thread])
        mine = difference(own_waits, difference(own_waits, within))
        rows = np.flatnonzero((tree.rank == rank) & (tree.thread == thread) & (tree.kind != "annotation"))
        inside = measure(mine, tree.begin[rows], tree.end[rows])
        alone = np.maximum(own(inside, _above(tree, rows)), 0)
        sums = np.bincount(tree.name[rows], weights=alone, minlength=len(tree.names))
        for i in np.flatnonzero(sums).tolist():
            spent[tree.names[i]] = spent.get(tree.names[i], 0.0) + float(sums[i])
        untold = mine.length - float(sums.sum())
        if untold > 0:
            spent[""] = spent.get("", 0.0) + untold
    return spent


def _above(tree: Host, rows: Ints) -> Ints:
    """Return for some events the next one around them of their number, as its place; -1 for none."""
    number = np.full(len(tree.begin), -1)
    number[rows] = np.arange(len(rows))
    parent = tree.parent[rows]
    for _ in range(64):  # annotations lie in a few others at most
        skipped = (parent >= 0) & (number[parent] < 0)
        if not skipped.any():
            break
        parent[skipped] = tree.parent[parent[skipped]]
    return np.where(parent >= 0, number[parent], -1)
