"""Attributes idle time of an accelerator to the host, to kernel start-up, or to other reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.device.time_breakdown import split
from holter.analysis.device.work import check_definition, device_work, hta_rounded, launch_of
from holter.analysis.intervals import Intervals, gaps, union
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from holter.analysis.device.work import Ints

KERNEL_DELAY_NS = 30_000
"""Shorter gaps between work that was asked for in time are the cost of starting a kernel."""


@dataclass(frozen=True, kw_only=True)
class IdleTime:
    """Idle time of one device, or of one of its streams, between its first and its last work; ns."""

    rank: int
    device: int
    stream: int
    """-1: all streams of the device together."""
    host_wait_ns: int
    """The host had not asked yet when the work before ended."""
    kernel_wait_ns: int
    """It had, and the gap is shorter than `KERNEL_DELAY_NS`."""
    other_ns: int
    """It had, and the gap is longer: an event of another stream, a dependency."""
    unknown_ns: int
    """The work that ends the gap has no launch in the trace."""
    host_waits: Intervals
    """The gaps that wait for the host."""

    @property
    def total_ns(self) -> int:
        """All idle time."""
        return self.host_wait_ns + self.kernel_wait_ns + self.other_ns + self.unknown_ns


def idle_time(tables: Mapping[str, Table], definition: str = "all") -> list[IdleTime]:
    """Attribute idle time to its reasons.

    Args:
        tables: `kernels`, `memory_operations`, `launches`.
        definition: `all`: gaps in which no stream of a device ran anything, one row a device. `hta`: gaps
            within each stream, one row a stream, as HTA's `get_idle_time_breakdown`: each event is compared
            with the one that began before it, gaps that overlap count as negative, and work without a
            launch in the trace counts as others do.

    Raises:
        ValueError: Another definition.
    """
    check_definition(definition, ("all", "hta"))
    launches = tables.get("launches") or Table.empty("launches")
    work = device_work(tables, definition).without_waits()
    asked = launches["time"].astype(np.int64)
    if definition == "hta":
        asked, _ = hta_rounded(asked, asked)
    called = launch_of(work, launches)
    work = work._replace(name=np.arange(len(called)))  # finds the launch of each work after splitting
    found = []
    for (rank, device), part in split(work):
        if definition == "all":
            waits = gaps(part.begin, part.end)
            launch = called[part.name[waits.next]]
            found.append(_idle(rank, device, -1, waits.begin, waits.end, launch, asked))
            continue
        for stream in np.unique(part.stream).tolist():
            one = part.where(part.stream == stream)
            launch = called[one.name[1:]]
            found.append(_idle(rank, device, stream, one.end[:-1], one.begin[1:], launch, asked))
    return found


def _idle(rank: int, device: int, stream: int, begin: Ints, end: Ints, launch: Ints, asked: Ints) -> IdleTime:
    known = launch >= 0
    host = np.zeros(len(begin), dtype=bool)
    host[known] = asked[launch[known]] > begin[known]
    gap = end - begin
    if stream >= 0:  # as HTA: without a launch it is not the host's
        known = np.ones(len(begin), dtype=bool)
    short = known & ~host & (gap < KERNEL_DELAY_NS)

    def total(mask: NDArray[np.bool_]) -> int:
        return int(gap[mask].sum())

    return IdleTime(
        rank=rank,
        device=device,
        stream=stream,
        host_wait_ns=total(host),
        kernel_wait_ns=total(short),
        other_ns=total(known & ~host & ~short),
        unknown_ns=total(~known),
        host_waits=union(begin[host], end[host]),
    )
