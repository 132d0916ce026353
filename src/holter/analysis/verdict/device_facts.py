"""Facts of a trace: how accelerators spent their time, and what idle accelerators waited for."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.device.judged_steps import inferred_from, judged_window, steps_of
from holter.analysis.device.rank_summary import OddRank, rank_parts, rank_summary
from holter.analysis.device.time_breakdown import split
from holter.analysis.device.work import COMMUNICATION, COMPUTE, device_work, launch_of
from holter.analysis.host.horovod import Horovod, horovod
from holter.analysis.host.operator_tree import Host, host, named
from holter.analysis.host.unequal_threads import SlowThread, slow_threads
from holter.analysis.intervals import union
from holter.analysis.jobs.what_if import WhatIf, what_if
from holter.analysis.jobs.worker_timeline import timeline_of
from holter.analysis.verdict.device_parts import PARTS, covered, device_parts
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.analysis.device.arrivals import LateRank
    from holter.analysis.device.startup import Startup

LOADING = re.compile(
    r"^enumerate\(DataLoader\)|dataloader\.py\(\d+\): __next__"
    r"|^#* ?(data[ _-]?load|load[ _-]?data|get[ _-]?batch|next[ _-]?batch|fetch[ _-]?data)",
    re.IGNORECASE,
)
SAVING = re.compile(
    r"torch/serialization\.py\(\d+\): save|^#* ?(save[ _-]?checkpoint|checkpoint[ _-]?sav)", re.IGNORECASE
)
ALLOCATING = re.compile(
    r"^(cuda|hip)(Malloc|Free)(Host|Managed)?$|^(cuda|hip)Host(Alloc|Malloc|Free)$|^cuMem(Create|Map|Unmap|Release)$"
)
LEAST_KERNELS = 50
"""A verdict needs at least this many kernels."""


@dataclass(frozen=True, kw_only=True)
class DeviceFacts:
    """The devices of a trace in numbers: means over the devices unless stated otherwise."""

    ranks: tuple[int, ...] = ()
    devices: int = 0
    kernels: int = 0
    window_ns: int = 0
    """From the begin of the first step to the end of the last one; the whole trace if it has no steps."""
    steps: int = 0
    step_ms: float | None = None
    """Median duration of a step on the host."""
    inferred: str = ""
    """What the steps are inferred from, if the trace does not mark them."""
    startup: Startup | None = None
    """First steps that are not judged."""
    breakdown: dict[str, float] = field(default_factory=dict)
    """Part of `PARTS` → percent; adds up to 100."""
    busy_pct: float = 0.0
    median_kernel_us: float = 0.0
    communication_pct: float = 0.0
    """All communication, hidden and exposed."""
    h2d_pct: float = 0.0
    """Exposed copies from the host."""
    pageable: int = 0
    """Number of copies from pageable host memory."""
    loading_pct: float = 0.0
    """Share of the window in which the host waited for batches, with or without work on the device."""
    allocations: int = 0
    """Number of calls that allocate or free device memory or pinned host memory."""
    after_sync_pct: float = 0.0
    """Share of the window in which the device idled because the host had just waited for it."""
    blamed: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    """Part → what the host did while the device waited: name and percent of that time, the largest first. The
    name is empty for code that the trace does not name."""
    stacks: bool = False
    """Whether the trace records Python functions; this slows the host."""
    late: list[LateRank] = field(default_factory=list)
    odd: list[OddRank] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)
    slow: list[SlowThread] = field(default_factory=list)
    """Without device work: threads that take longer than others for the same calls."""
    what_if: WhatIf | None = None
    """Without device work: step times without single causes, where threads name their place in the job."""
    horovod: Horovod | None = None
    host_parts: dict[str, float] = field(default_factory=dict)
    """Without device work: own time of the host's events by name, percent of the window."""

    @property
    def accelerators(self) -> str:
        """Name the accelerators for people."""
        return "the accelerator" if self.devices == 1 else f"the {self.devices} accelerators"


def device_facts(
    tables: Mapping[str, Table], startup: Startup | None = None, tree: Host | None = None
) -> DeviceFacts:
    """Compute the facts of a trace from its tables, without those of the steps of its start-up.

    `tree` is the result of `host`, if it is already computed.
    """
    work = device_work(tables)
    tree = host(tables) if tree is None else tree
    steps = steps_of(tables)
    if not len(work.begin):
        return _of_the_host(tree, steps, tables, startup)
    loading, saving = named(tables, LOADING), named(tables, SAVING)
    allocating = named(tables, ALLOCATING)
    called = launch_of(work, tables.get("launches") or Table.empty("launches"))
    parts: list[dict[str, Any]] = []
    for (rank, _), mine in split(work._replace(name=np.arange(len(called)))):
        spent = [covered(table.where(table["rank"] == rank)) for table in (loading, saving, allocating)]
        parts.append(device_parts(mine, judged_window(steps, rank, mine), spent, called, tree, tables))
    weight = [part["window"] for part in parts]

    def mean(name: str) -> float:
        return float(np.average([part[name] for part in parts], weights=weight))

    kernels = work.where(np.isin(work.kind, (COMPUTE, COMMUNICATION)))
    computing = work.duration[work.kind == COMPUTE]
    copies = tables.get("memory_operations") or Table.empty("memory_operations")
    compared = rank_summary(rank_parts(tables))
    return DeviceFacts(
        ranks=tuple(np.unique(work.rank).tolist()),
        devices=len(parts),
        kernels=len(kernels.begin),
        window_ns=int(np.mean(weight)),
        steps=_count(steps),
        step_ms=float(np.median(steps["duration"])) / 1e6 if steps.rows else None,
        inferred=inferred_from(steps),
        startup=startup,
        breakdown={
            name: float(np.average([p["parts"][name] for p in parts], weights=weight)) for name in PARTS
        },
        busy_pct=mean("busy"),
        median_kernel_us=float(np.median(computing)) / 1e3 if len(computing) else 0.0,
        communication_pct=mean("communication"),
        h2d_pct=mean("h2d"),
        pageable=int(((copies["memory"] == "pageable") & (copies["kind"] == "h2d")).sum()),
        loading_pct=mean("loading"),
        allocations=allocating.rows,
        after_sync_pct=mean("after_sync"),
        blamed={name: _most([part["blamed"].get(name, {}) for part in parts]) for name in PARTS[3:7]},
        stacks=bool(np.isin(tree.kind, ("python", "module")).any()),
        late=compared.late,
        odd=compared.odd,
        unmatched=compared.refused,
    )


def _most(spent: list[dict[str, float]]) -> list[tuple[str, float]]:
    """Add up what the devices waited for; return the largest five with their percentages."""
    names = {name for one in spent for name in one}
    sums = {name: sum(one.get(name, 0.0) for one in spent) for name in names}
    whole = sum(sums.values())
    return [
        (name, 100.0 * ns / whole) for name, ns in sorted(sums.items(), key=lambda x: -x[1])[:5] if ns > 0
    ]


def _count(steps: Table) -> int:
    """Return the number of steps of the rank with the most."""
    return int(np.unique(steps["rank"], return_counts=True)[1].max()) if steps.rows else 0


def _of_the_host(
    tree: Host, steps: Table, tables: Mapping[str, Table], startup: Startup | None
) -> DeviceFacts:
    """Compute the facts of a trace without device work: how the host's threads spent the time."""
    if not len(tree.begin):
        return DeviceFacts(steps=_count(steps), inferred=inferred_from(steps), startup=startup)
    tracks, operators = tables.get("tracks"), tables["operators"]
    timeline = (
        timeline_of(operators, tracks) if tracks is not None and "detail" in operators.columns else None
    )
    window = int(tree.end.max() - tree.begin.min())
    main = _main_thread(tree)
    alone = np.where(main, tree.own_ns, 0)
    sums = np.bincount(tree.name, weights=alone, minlength=len(tree.names))
    top = np.argsort(-sums, kind="stable")[:10]
    whole = max(window, float(sums.sum()), 1.0)  # slices of one thread may overlap where nothing nests
    loading = np.array([bool(LOADING.search(name)) for name in tree.names])[tree.name] & main
    return DeviceFacts(
        ranks=tuple(np.unique(tree.rank).tolist()),
        window_ns=window,
        steps=_count(steps),
        step_ms=float(np.median(steps["duration"])) / 1e6 if steps.rows else None,
        inferred=inferred_from(steps),
        startup=startup,
        loading_pct=100.0 * union(tree.begin[loading], tree.end[loading]).length / max(window, 1),
        slow=slow_threads(tree, tracks),
        what_if=what_if(timeline) if timeline else None,
        horovod=horovod(tree),
        host_parts={tree.names[i]: 100.0 * float(sums[i]) / whole for i in top.tolist() if sums[i] > 0},
        stacks=bool(np.isin(tree.kind, ("python", "module")).any()),
    )


def _main_thread(tree: Host) -> Any:
    """Select the events of the busiest thread of the first rank."""
    mine = tree.rank == tree.rank.min()
    outer = mine & (tree.parent < 0)
    threads, at = np.unique(tree.thread[outer], return_inverse=True)
    busy = np.bincount(at, weights=tree.total_ns[outer])
    return mine & (tree.thread == threads[int(np.argmax(busy))])
