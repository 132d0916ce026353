"""Analyzes launches: delay from launch to run, queue length, and host-bound kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.device.time_breakdown import split
from holter.analysis.device.work import COMMUNICATION, check_definition, device_work, hta_rounded, launch_of
from holter.analysis.grouping import groups
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from holter.analysis.device.work import Ints

HTA_CALLS = (
    "cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync",
    "runFunction - job_prep_and_submit_for_execution",
)  # fmt: skip
STARVED_LEAST = 20
"""So many pieces of work in a row, each asked for only after the one before had ended, make a stretch."""


def launch_delays(
    tables: Mapping[str, Table], definition: str = "all", *, calls: Sequence[str] | None = None
) -> Table:
    """Pair each launch with the work that it starts.

    Args:
        tables: `kernels`, `memory_operations`, `launches`.
        definition: As for `device_work`; `all` or `hta`.
        calls: Only launches by these functions. HTA's `get_cuda_kernel_launch_stats` knows `HTA_CALLS`: it
            leaves HIP's and the driver's out.

    Returns:
        rank, device, stream, time (of the launch), host_ns (the call), begin (of the run), device_ns (the
        run), delay_ns (from the end of the call to the begin of the run, at least 0), name (of the run), kind
        (index into `KINDS`), in the order of launches.

    Raises:
        ValueError: No such definition.
    """
    check_definition(definition, ("all", "hta"))
    launches = tables.get("launches") or Table.empty("launches")
    work = device_work(tables, definition).without_waits()
    called = launch_of(work, launches)
    keep = called >= 0
    if calls is not None:
        keep[keep] = np.isin(launches["name"], list(calls))[called[keep]]
    work, called = work.where(keep), called[keep]
    asked = launches["time"][called].astype(np.int64)
    returned = asked + launches["duration"][called]
    if definition == "hta":
        asked, returned = hta_rounded(asked, returned)
    names = np.array(work.names, dtype=object)
    columns: dict[str, NDArray[Any]] = {
        "rank": work.rank,
        "device": work.device,
        "stream": work.stream,
        "time": asked,
        "host_ns": returned - asked,
        "begin": work.begin,
        "device_ns": work.duration,
        "delay_ns": np.maximum(work.begin - returned, 0),
        "name": names[work.name],
        "kind": work.kind,
    }
    return Table(columns).where(np.argsort(asked, kind="stable"))


@dataclass(frozen=True, kw_only=True)
class Queue:
    """What had been asked of one stream and had not begun, from event to event."""

    rank: int
    device: int
    stream: int
    time: Ints
    """When the length changed, ns."""
    length: Ints
    """The length from then on."""

    @property
    def longest(self) -> int:
        """The most that waited."""
        return int(self.length.max()) if len(self.length) else 0

    @property
    def mean(self) -> float:
        """Mean over the events, as HTA's summary has it; NaN without any."""
        return float(self.length.mean()) if len(self.length) else float("nan")


def queue_lengths(tables: Mapping[str, Table], definition: str = "all") -> list[Queue]:
    """Follow the queue of each stream: a launch adds one when it begins, a run takes one when it begins.

    `hta` is HTA's `get_queue_length_time_series`: it leaves out the kernels of graphs. Of events in the same
    microsecond it takes now the launch first, now the run, as its sorting has it, so that means differ by up
    to a few percent.
    """
    calls = None
    if definition == "hta" and "launches" in tables:
        calls = [name for name in set(tables["launches"]["name"].tolist()) if "GraphLaunch" not in name]
    pairs = launch_delays(tables, definition, calls=calls)
    found = []
    streams = groups(*(pairs[name] for name in ("rank", "device", "stream")))
    for (rank, device, stream), mine in sorted(streams.items()):
        time = np.concatenate([pairs["time"][mine], pairs["begin"][mine]])
        change = np.repeat([1, -1], len(mine))
        order = np.argsort(time, kind="stable")  # a launch before the run it starts
        found.append(
            Queue(rank=rank, device=device, stream=stream, time=time[order], length=np.cumsum(change[order]))
        )
    return found


@dataclass(frozen=True, kw_only=True)
class HostBound:
    """How far one device runs hand to mouth: it begins each piece of work as soon as the host asks for it."""

    rank: int
    device: int
    starved_pct: float
    """Share of the work that the host asked for only after everything before it had ended."""
    short_pct: float
    """Share of the kernels that run for less time than the call that launched them takes."""
    begin: Ints
    """When each stretch of `STARVED_LEAST` and more such pieces of work in a row began, ns."""
    end: Ints

    @property
    def stretch_ns(self) -> int:
        """Time in such stretches."""
        return int((self.end - self.begin).sum())


def host_bound(tables: Mapping[str, Table]) -> list[HostBound]:
    """Find the stretches in which the host sets the pace, device by device; communication is left out.

    A collective may begin late because another rank does: it tells nothing of this host.
    """
    work, launches = device_work(tables), tables.get("launches") or Table.empty("launches")
    called = launch_of(work, launches)
    asked = np.where(called >= 0, launches["time"][called] if launches.rows else 0, -1).astype(np.int64)
    length = np.where(called >= 0, launches["duration"][called] if launches.rows else 0, 0)
    number = np.arange(len(called))
    found = []
    for (rank, device), part in split(work._replace(name=number)):
        reach = np.maximum.accumulate(part.end)
        starved = np.zeros(len(reach), dtype=bool)
        starved[1:] = asked[part.name[1:]] > reach[:-1]
        mine = part.kind != COMMUNICATION
        starved, begin, end = starved[mine], part.begin[mine], part.end[mine]
        edges = np.flatnonzero(np.diff(np.concatenate([[False], starved, [False]]).astype(np.int8)))
        first, last = edges[::2], edges[1::2] - 1
        long = last - first + 1 >= STARVED_LEAST
        called_ns, ran = length[part.name[mine]], end - begin
        short = (called[part.name[mine]] >= 0) & (ran < called_ns)
        total = max(len(starved), 1)
        found.append(
            HostBound(
                rank=rank,
                device=device,
                starved_pct=100.0 * float(starved.sum()) / total,
                short_pct=100.0 * float(short.sum()) / total,
                begin=begin[first[long]],
                end=end[last[long]],
            )
        )
    return found
