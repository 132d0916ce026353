"""Summarizes the data loaders of a job: waits, workers, queues and outliers."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from holter.analysis.loading import loader_durations
from holter.analysis.loading import loader_timeline as timeline
from holter.analysis.loading.dataloading import loaders as loader_facts
from holter.analysis.loading.stacks import callables

if TYPE_CHECKING:
    from holter.analysis.loading.dataloading import LoaderSettings
    from holter.schema.table import Table
    from holter.store.trial import Trial
    from holter.views.document.types.training import LoadingCallable
    from holter.views.document.types.values import TableRow

MOST = 100
"""Outliers listed of each kind."""


class DurationSummary(TypedDict):
    """Durations of one kind, ns."""

    count: int
    median: int | None
    longest: int | None
    outliers: list[TableRow]
    left_out: int


class LoaderSummary(TypedDict):
    """The data loading of a job; times in ns, shares in percent. An unknown value is None."""

    loaders: list[LoaderSettings]
    """The facts of each loader, as the script made it."""
    next_batch: DurationSummary
    initialization: DurationSummary
    batch_time: DurationSummary
    worker_life: DurationSummary
    workers: list[TableRow]
    batches: int
    hidden_pct: float | None
    """Share of the building of batches for which the training does not wait."""
    queued: int | None
    waited: int | None
    handover: int | None
    """Medians over batches."""
    ready: float | None
    """The mean number of batches in the queue."""
    callables: list[LoadingCallable]


def loaders(
    trial: Trial, *, start_ns: int | None = None, end_ns: int | None = None, rank: int | None = None
) -> LoaderSummary:
    """Return a summary of data loading, of the whole job or a time range, of all ranks or of one."""
    of = "true" if rank is None else f"rank = {int(rank)}"
    where = f"phase IN ('data_loading', 'fetch', 'collate', 'stack') AND {of}"
    spans = trial.table("spans", where=where, start_ns=start_ns, end_ns=end_ns)
    events = trial.table("events", where=of)
    facts = loader_facts(events)
    counts = {fact["index"]: fact["workers"] for fact in facts if fact.get("workers") and "index" in fact}
    followed = timeline.batches(spans, counts)
    stacks, joins = (
        zip(mine["name"].tolist(), mine["duration"].tolist(), strict=True)
        for mine in (spans.where(spans["phase"] == kind) for kind in ("stack", "collate"))
    )
    return {
        "loaders": facts,
        "next_batch": _summary(loader_durations.next_batches(spans)),
        "initialization": _summary(loader_durations.initializations(spans)),
        "batch_time": _summary(loader_durations.batch_times(spans)),
        "worker_life": _summary(loader_durations.worker_lives(events)),
        "workers": [asdict(worker) for worker in timeline.workers(spans)],
        "batches": followed.rows,
        "hidden_pct": timeline.hidden_pct(followed),
        "queued": _median(followed, "queued"),
        "waited": _median(followed, "waited"),
        "handover": _median(followed, "handover"),
        "ready": _mean(timeline.in_flight(followed), "ready"),
        "callables": [
            {"name": one.name, "stage": one.stage, "fetch_pct": one.fetch_pct}
            for one in callables(stacks, joins)
        ],
    }


def _summary(durations: loader_durations.Durations) -> DurationSummary:
    outliers = durations.outliers
    return {
        "count": durations.count,
        "median": durations.median,
        "longest": durations.longest,
        "outliers": list(outliers.where(slice(0, MOST)).to_rows()),
        "left_out": max(outliers.rows - MOST, 0),
    }


def _median(table: Table, name: str) -> int | None:
    return int(np.median(table[name])) if table.rows else None


def _mean(counted: Table, name: str) -> float | None:
    """Return the mean over time of a count that changes; of several loaders together, None without any."""
    total = length = 0
    for rank, loader in {*zip(counted["rank"].tolist(), counted["loader"].tolist(), strict=True)}:
        mine = counted.where((counted["rank"] == rank) & (counted["loader"] == loader))
        took = np.diff(mine["time"])
        total += int((mine[name][:-1] * took).sum())
        length += int(took.sum())
    return total / length if length else None
