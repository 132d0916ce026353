"""Attributes idle time of an accelerator to the host, to kernel start-up, or to other reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.device.time_breakdown import split
from holter.analysis.device.work import device_work, hta_rounded, launch_of
from holter.analysis.intervals import Intervals, gaps, union
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from holter.analysis.device.work import Ints, Work

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


def idle_time(
    tables: Mapping[str, Table], definition: str = "all", *, kernel_delay_ns: int = KERNEL_DELAY_NS
) -> list[IdleTime]:
    """Attribute idle time to its reasons.

    Args:
        tables: `kernels`, `memory_operations`, `launches`.
        definition: `all`: gaps in which no stream of a device ran anything, one row a device. `hta`: gaps
            within each stream, one row a stream, as HTA's `get_idle_time_breakdown`: each event is compared
            with the one that began before it, gaps that overlap count as less than nothing, and what has no
            launch in the trace is not told apart.
        kernel_delay_ns: Gaps below this are a kernel's start.

    Raises:
        ValueError: Another definition.
    """
    if definition not in ("all", "hta"):
        raise ValueError(f"idle time has no definition {definition!r}; valid: all, hta")
    launches = tables.get("launches") or Table.empty("launches")
    work = device_work(tables, definition).without_waits()
    asked = launches["time"].astype(np.int64)
    if definition == "hta":
        asked, _ = hta_rounded(asked, asked)
    called = launch_of(work, launches)
    number = np.arange(len(called))  # rides along to find the launch of what is left after splitting
    found = []
    for (rank, device), part in split(work._replace(name=number)):
        if definition == "all":
            waits = gaps(part.begin, part.end)
            found.append(
                _told(rank, device, -1, waits.begin, waits.end, part.name[waits.next], called, asked)
            )
            continue
        for stream in np.unique(part.stream).tolist():
            one = part.where(part.stream == stream)
            begin, end = one.end[:-1], one.begin[1:]
            found.append(
                _told(rank, device, stream, begin, end, one.name[1:], called, asked, kernel_delay_ns)
            )
    return found


def _told(
    rank: int,
    device: int,
    stream: int,
    begin: Ints,
    end: Ints,
    next_: Ints,
    called: Ints,
    asked: Ints,
    delay: int = KERNEL_DELAY_NS,
) -> IdleTime:
    launch = called[next_]
    known = launch >= 0
    host = np.zeros(len(begin), dtype=bool)
    host[known] = asked[launch[known]] > begin[known]
    gap = end - begin
    if stream >= 0:  # as HTA: without a launch it is not the host's
        known = np.ones(len(begin), dtype=bool)
    short = known & ~host & (gap < delay)

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


def longest_gaps(work: Work, most: int = 10) -> Table:
    """Return the longest gaps of each device, the longest first: rank, device, time, duration, next.

    `next` is the name of what ended the gap.
    """
    columns: dict[str, list[NDArray[np.generic]]] = {}
    for (rank, device), part in split(work):
        found = gaps(part.begin, part.end)
        length = found.end - found.begin
        top = np.argsort(-length, kind="stable")[:most]
        names = np.array([part.names[i] for i in part.name[found.next[top]]], dtype=object)
        rows = {"rank": np.full(len(top), rank), "device": np.full(len(top), device)}
        rows |= {"time": found.begin[top], "duration": length[top], "next": names}
        for name, column in rows.items():
            columns.setdefault(name, []).append(column)
    return Table({name: np.concatenate(parts) for name, parts in columns.items()})
