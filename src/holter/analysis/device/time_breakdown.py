"""Breaks down an accelerator's time: compute, communication, copies, idle time and overlap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.device.work import COMMUNICATION, COMPUTE, MEMORY, OTHER, Work, device_work
from holter.analysis.intervals import union

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holter.schema.table import Table


@dataclass(frozen=True, kw_only=True)
class TimeBreakdown:
    """One rank's accelerator, from the first begin to the last end of what it ran. Times in ns.

    `compute + communication_exposed + memory_exposed + other_exposed + idle = span`.
    """

    rank: int
    device: int
    """-1 where the definition joins all devices of a rank."""
    definition: str
    begin_ns: int
    span_ns: int
    busy_ns: int
    """Time in which anything ran: the union of all work."""
    compute_ns: int
    """Union of compute kernels."""
    communication_ns: int
    """Union of communication kernels, waiting for other ranks included."""
    communication_exposed_ns: int
    """Communication while nothing computed."""
    memory_ns: int
    """Union of copies and fills."""
    memory_exposed_ns: int
    """Copies and fills while nothing computed or communicated."""
    other_exposed_ns: int
    """Other work while none of these runs: only with definition `hta`."""

    @property
    def idle_ns(self) -> int:
        """Time in which nothing ran."""
        return self.span_ns - self.busy_ns

    @property
    def non_compute_ns(self) -> int:
        """HTA's non-compute time: busy, but not computing."""
        return self.busy_ns - self.compute_ns

    @property
    def overlap_ns(self) -> int:
        """Communication that compute hid."""
        return self.communication_ns - self.communication_exposed_ns

    @property
    def overlap_pct(self) -> float | None:
        """Share of communication that compute hid, as HTA's `comp_comm_overlap_pctg`; None without any."""
        return 100.0 * self.overlap_ns / self.communication_ns if self.communication_ns > 0 else None

    def share(self, part_ns: int) -> float:
        """Return a time as percent of the span; 0 of an empty one."""
        return 100.0 * part_ns / self.span_ns if self.span_ns > 0 else 0.0


def time_breakdown(tables: Mapping[str, Table], definition: str = "all") -> list[TimeBreakdown]:
    """Break the time of each accelerator down, those of the lowest rank first; none without device work.

    With `hta` and `tracelens` the numbers are those of HTA's `get_temporal_breakdown` and
    `get_comm_comp_overlap`, and of TraceLens's `gpu_timeline`, which know one device a rank. HTA counts
    `cuda_sync` events as work of no kind, if the trace has any; the tables keep these apart as `syncs`, so
    that its idle time of such traces is not ours. On events shorter than 1 us its rounding makes negative
    lengths, at which it fails; here they count as none.

    Args:
        tables: As for `device_work`.
        definition: `all`, `hta` or `tracelens`.

    Raises:
        ValueError: No such definition.
    """
    work = device_work(tables, definition)
    return [broken_down(part, key, definition) for key, part in split(work, devices=definition == "all")]


def split(work: Work, *, devices: bool = True) -> Iterator[tuple[tuple[int, int], Work]]:
    """Yield the work of each rank and device, in their order; without `devices` the device is -1."""
    if not len(work.begin):
        return
    device = work.device if devices else np.full(len(work.begin), -1)
    order = np.lexsort((work.begin, device, work.rank))
    rank, device = work.rank[order], device[order]
    edges = np.flatnonzero((np.diff(rank) != 0) | (np.diff(device) != 0)) + 1
    for rows in np.split(order, edges):
        first = rows[0]
        yield (int(work.rank[first]), int(work.device[first]) if devices else -1), work.where(rows)


def broken_down(work: Work, key: tuple[int, int], definition: str = "all") -> TimeBreakdown:
    """Break down what one device ran; `key` is its rank and number."""

    def covered(*kinds: int) -> int:
        some = wanted[list(kinds)].any(axis=0)
        return union(work.begin[some], work.end[some]).length

    wanted = np.arange(4)[:, None] == work.kind
    compute, communication, memory = covered(COMPUTE), covered(COMMUNICATION), covered(MEMORY)
    both = covered(COMPUTE, COMMUNICATION) if communication else compute
    known = covered(COMPUTE, COMMUNICATION, MEMORY) if memory else both
    busy = covered(COMPUTE, COMMUNICATION, MEMORY, OTHER) if (work.kind == OTHER).any() else known
    begin = int(work.begin.min())
    return TimeBreakdown(
        rank=key[0],
        device=key[1],
        definition=definition,
        begin_ns=begin,
        span_ns=int(work.end.max()) - begin,
        busy_ns=busy,
        compute_ns=compute,
        communication_ns=communication,
        communication_exposed_ns=both - compute,
        memory_ns=memory,
        memory_exposed_ns=known - both,
        other_exposed_ns=busy - known,
    )
