"""Analyzes data loading: the stages of the wait for a batch, and why the training thread waits."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict, cast

import numpy as np

from holter.analysis.events import details
from holter.analysis.loading.stacks import SampledCallable, callables
from holter.analysis.loading.waits import first_waits, holding, inside, outside, split_waits, within
from holter.analysis.steps.breakdown import breakdown
from holter.analysis.steps.loop_thread import by_loop
from holter.analysis.steps.warmup import by_rank, steady
from holter.schema.phases import ITERATOR_END, STAGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from holter.schema.table import Table

COMPUTE = ("h2d", "forward", "loss", "backward", "optimizer", "compute")
"""Parts of a step that are the model's own work."""

HAND_OVER_MS = 1.0
"""About so much a batch from a worker costs the training process, however small and ready it is: it comes
over a pipe, and its memory is mapped. (1.3 ms for 16 kB and for 512 kB with torch 2.13 on two cores.)"""
CPU_FULL = 90.0
_BUSY = 90.0
_RESTARTS = 0.2
"""Restarts of workers count from this share of the wait on."""


class LoaderSettings(TypedDict, total=False):
    """The recorded settings of one data loader."""

    index: int
    rank: int
    workers: int
    batch_size: int | None
    pin_memory: bool
    prefetch_factor: int | None
    persistent_workers: bool
    dataset: str


@dataclass(frozen=True, kw_only=True)
class DataLoading:
    """Facts of a job's data loading. None means unknown."""

    share_pct: float
    """Data loading's percent of the loop."""
    stages: dict[str, float]
    """Stage → percent of the loop; together `share_pct`. Empty when no worker's work was recorded.

    `read`, `decode`, `transform` come from stack samples; without these they are one stage, `fetch`.
    """
    callables: list[SampledCallable] = field(default_factory=list)
    """Callables that build batches, with their shares of that time."""
    workers: int | None = None
    pin_memory: bool | None = None
    prefetch_factor: int | None = None
    persistent_workers: bool | None = None
    batch_size: int | None = None
    dataset: str | None = None
    wait_ms: float = 0.0
    """Median wait per step."""
    mean_wait_ms: float = 0.0
    """Mean wait per step."""
    handover_ms: float = 0.0
    """Wait per step when the batch is ready: the fastest tenth of the steps."""
    compute_ms: float = 0.0
    """Median of forward, loss, backward, optimizer and copies to the device, per step."""
    fetch_ms: float | None = None
    """Median time that one worker takes for one batch."""
    batches_per_step: float = 1.0
    busy_pct: float | None = None
    """Percent of the loop in which a worker builds a batch, mean over the workers."""
    needed_workers: int | None = None
    """Workers that would hide the loading: fetch over compute, rounded up."""
    periodic: bool = False
    """Most of the wait falls in every k-th step, k = workers."""
    restart_ms: float = 0.0
    """Mean time per step in which workers end and start again, until their first batch."""
    evaluation_start_pct: float = 0.0
    """Percent of the loop in which the workers of evaluations end and start, until their first batch."""

    @property
    def restarts(self) -> bool:
        """Whether restarts of workers take a part of the wait that counts."""
        return self.restart_ms > max(_RESTARTS * self.mean_wait_ms, 0)

    def to_json(self) -> dict[str, object]:
        """Return the facts as `describe --json` prints them under `dataloading`."""
        rows = [{"name": c.name, "stage": c.stage, "fetch_pct": c.fetch_pct} for c in self.callables]
        names = ("workers", "pin_memory", "prefetch_factor", "fetch_ms", "needed_workers", "busy_pct")
        known = {name: getattr(self, name) for name in names}
        return {"stages": dict(self.stages), "callables": rows, **known}


def loaders(events: Table | None) -> list[LoaderSettings]:
    """Return the settings of the job's data loaders from table `events`."""
    return [
        cast("LoaderSettings", {**detail, "rank": row["rank"]}) for row, detail in details(events, "loader")
    ]


def stages(
    spans: Table, steps: Table, facts: Sequence[LoaderSettings], mask: NDArray[Any] | None = None
) -> DataLoading | None:
    """Split the wait for batches into stages.

    Every moment of a wait belongs to what the rank's workers do meanwhile: they build a batch (`fetch`, split
    by the stack samples), join it (`collate`), or none works (`queue`: the batch is on its way).

    Args:
        spans: Table `spans`; of data_loading, fetch, collate, stack and step at least.
        steps: Table `steps`.
        facts: What `loaders` returned.
        mask: Rows of `steps` that are steady state; found out when absent.

    Returns:
        None when no step is known or nothing was ever loaded.
    """
    used = steps.where(steady(steps) if mask is None else mask)
    share = breakdown(used, np.ones(used.rows, dtype=bool)).get("data_loading", 0.0)
    if not used.rows or (share <= 0 and not facts):
        return None
    main = spans.where((spans["phase"] == "data_loading") & by_loop(spans))
    training = used.where(used["eval"] == 0)
    plain = within(main, training)
    loader = _loader(facts, plain)
    # An epoch's first step holds the evaluation before it, and that one's own waits.
    evaluating = np.isfinite(main["value"]) & ~np.isin(main["value"], plain["value"])
    waits = within(main.where(~evaluating), used)
    fetches, joins, stacks = _work(spans, plain)
    if loader.get("workers") == 0:  # what its own thread does is recorded while that takes long enough only
        waits = holding(waits, fetches)
    split = split_waits(waits, fetches, joins)
    every = fetches
    fetches, joins = within(fetches, used), within(joins, used)
    stacks = within(outside(stacks, joins), used)
    found = callables(_timed(stacks), _timed(joins))
    workers = loader.get("workers")
    compute = float(np.median(np.sum([used[part] for part in COMPUTE], axis=0))) / 1e6
    fetch_ms = float(np.median(fetches["duration"])) / 1e6 if fetches.rows else None
    batches = max(round(plain.rows / max(training.rows, 1)), 1)
    wait = used["data_loading"] / 1e6
    evaluations = _restarting(within(main.where(evaluating), used), facts)
    return DataLoading(
        share_pct=share,
        stages=_named(split, found, share),
        callables=found,
        workers=workers,
        pin_memory=loader.get("pin_memory"),
        prefetch_factor=loader.get("prefetch_factor"),
        persistent_workers=loader.get("persistent_workers"),
        batch_size=loader.get("batch_size"),
        dataset=loader.get("dataset"),
        wait_ms=float(np.median(wait)),
        mean_wait_ms=float(wait.mean()),
        handover_ms=float(np.percentile(wait, 10)),
        compute_ms=compute,
        fetch_ms=fetch_ms,
        batches_per_step=float(batches),
        busy_pct=_busy(every, used),
        needed_workers=math.ceil(fetch_ms * batches / compute) if fetch_ms and compute > 0 else None,
        periodic=any(_periodic(used["data_loading"][rows], workers) for rows in by_rank(used)),
        restart_ms=_restarting(waits, facts) / used.rows / 1e6,
        evaluation_start_pct=100.0 * evaluations / float(used["duration"].sum()),
    )


def causes(loading: DataLoading, *, cpu_p50: float | None, iowait_p95: float | None) -> list[str]:
    """Return codes of the reasons why the training thread waits, the most direct first.

    Args:
        loading: What `stages` found.
        cpu_p50: Median CPU utilization of the node in percent, when it is known.
        iowait_p95: 95th percentile of the share of time that cores waited for I/O, when it is known.
    """
    fetch = sum(loading.stages.get(name, 0.0) for name in ("read", "decode", "transform", "fetch"))
    found = []
    if loading.workers == 0:
        found.append("single_process")
    if cpu_p50 is not None and cpu_p50 >= CPU_FULL:
        found.append("cpu_saturated")
    reads = fetch and loading.stages.get("read", 0.0) >= fetch / 2
    if reads or (iowait_p95 is not None and iowait_p95 > 30):
        found.append("io_wait")
    if loading.workers and loading.busy_pct is not None and loading.busy_pct > _BUSY:
        found.append("too_few_workers")
    if loading.periodic:
        found.append("periodic")
    if loading.restarts:
        found.append("epoch_start")
    return found


def _work(spans: Table, waits: Table) -> tuple[Table, Table, Table]:
    """Return the fetches of the loaders that the training waits for, with their collates and stack samples.

    There may be several: many loops make a new loader for each epoch.
    """
    fetches = spans.where(spans["phase"] == "fetch")
    indexes = np.unique(waits["value"][np.isfinite(waits["value"])])
    named = np.fromiter((str(name).startswith("loader ") for name in fetches["name"]), bool, fetches.rows)
    if indexes.size and named.any():
        wanted = {f"loader {int(index)}" for index in indexes}
        fetches = fetches.where(~named | np.isin(fetches["name"].astype(str), sorted(wanted)))
    joins, stacks = (spans.where(spans["phase"] == kind) for kind in ("collate", "stack"))
    if named.any():
        joins, stacks = inside(joins, fetches), inside(stacks, fetches)
    return fetches, joins, stacks


def _timed(spans: Table) -> list[tuple[str, float]]:
    """Return name and duration of each span."""
    return list(zip(spans["name"].tolist(), spans["duration"].tolist(), strict=True))


def _named(split: dict[str, float] | None, found: list[SampledCallable], share: float) -> dict[str, float]:
    if split is None:
        return {}
    weights: dict[str, float] = {}
    for item in found:
        for stage, percent in item.stages.items():
            if stage != "collate":  # its time is known without samples
                weights[stage] = weights.get(stage, 0.0) + percent
    weights = weights or {"fetch": 100.0}
    total = sum(weights.values())
    order = sorted(weights, key=lambda stage: STAGES.index(stage) if stage in STAGES else -1)
    result = {stage: share * split["fetch"] * weights[stage] / total for stage in order}
    return {**result, "collate": share * split["collate"], "queue": share * split["queue"]}


def _loader(facts: Sequence[LoaderSettings], waits: Table) -> LoaderSettings:
    """Find the loader that was waited for longest."""
    longest: dict[int, int] = {}
    for index, duration in zip(waits["value"].tolist(), waits["duration"].tolist(), strict=True):
        if not math.isnan(index):
            longest[int(index)] = longest.get(int(index), 0) + duration
    for index in sorted(longest, key=lambda i: -longest[i]):
        for fact in facts:
            if fact.get("index") == index:
                return fact
    return facts[0] if len(facts) == 1 else {}


def _restarting(waits: Table, facts: Sequence[LoaderSettings]) -> float:
    """Return the time in which workers of loaders end, or start until their first batch, ns."""
    with_workers = [fact["index"] for fact in facts if fact.get("workers") and "index" in fact]
    theirs = waits.where(np.isin(waits["value"], with_workers))
    # A loop drops an epoch's iterator after it has started the next one.
    ended = theirs["name"] == ITERATOR_END
    started = first_waits(theirs.where(~ended))["duration"].sum()
    return float(started + theirs["duration"][ended].sum())


def _busy(fetches: Table, used: Table) -> float | None:
    """Compute the share of the loop in which a worker builds a batch, mean over the workers."""
    spent = available = 0
    for rows in by_rank(used):
        mine = fetches.where((fetches["rank"] == used["rank"][rows[0]]) & (fetches["worker"] >= 0))
        first, last = used["time"][rows[0]], (used["time"] + used["duration"])[rows[-1]]
        begin, end = np.maximum(mine["time"], first), np.minimum(mine["time"] + mine["duration"], last)
        seen = end > begin
        spent += int((end - begin)[seen].sum())
        available += len(np.unique(mine["worker"][seen])) * int(last - first)
    return min(100.0 * spent / available, 100.0) if available else None


def _periodic(wait: NDArray[Any], workers: int | None) -> bool:
    if not workers or workers < 2 or len(wait) < 4 * workers or not wait.sum():
        return False
    by_turn = [wait[turn::workers].sum() for turn in range(workers)]
    return bool(max(by_turn) / wait.sum() > (1 + 1 / workers) / 2)
