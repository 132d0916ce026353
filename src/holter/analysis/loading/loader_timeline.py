"""Timelines of data loaders by batch and by worker: building, queued batches and waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.grouping import groups
from holter.schema.phases import ITERATOR_START, NEXT_BATCH
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_BATCH = dict.fromkeys(
    ("rank", "loader", "epoch", "number", "worker", "begin", "built", "asked", "taken"), np.int64
) | {"samples": float, "queued": np.int64, "waited": np.int64, "handover": np.int64}
_SLACK_NS = 1_000_000
"""A batch cannot be taken before it is built; clocks of processes are one, but spans end a little late."""


@dataclass(frozen=True, slots=True)
class Worker:
    """Work of one worker of one loader; worker -1 is the training process.

    Of that one not every batch may be recorded, where they take little.
    """

    rank: int
    loader: int
    worker: int
    batches: int
    samples: int
    fetch_median: int
    """Median time for one batch, ns."""
    busy_pct: float
    """Percent of the time from its first batch to its last that it builds."""
    collate_pct: float
    """Percent of its building that joins samples to a batch."""


def batches(spans: Table, workers: dict[int, int] | None = None) -> Table:
    """Follow each batch from the worker that builds it to the training thread that takes it.

    A loader hands its batches out in turns and takes them back in the same order, so the n-th of worker w of
    W is the batch n·W + w of its epoch. An epoch whose times contradict that (`in_order=False`, spans that
    were dropped) is left out. Without workers a batch is built while it is waited for.

    Args:
        spans: Table `spans`; of data_loading and fetch at least.
        workers: Number of workers by index of the loader; where it is not said, those that are seen.

    Returns:
        A row for each batch, in the order of `rank`, `loader`, `epoch`, `number`, with `worker`, the moments
        `begin` and `built` (by the worker), `asked` and `taken` (by the training thread), `samples` (NaN
        when not known), and in ns: `queued`, it lay ready; `waited`, the training thread waited for it to be
        built; `handover`, it waited for it to arrive, which is also where it is copied into pinned memory.
    """
    blocks = [_epoch(*part, workers or {}) for part in epochs(spans)]
    found = [block for block in blocks if block is not None]
    return Table.concat(found) if found else Table.of_tuples(_BATCH, [])


def in_flight(table: Table) -> Table:
    """Count, over time, the batches being built and those that lie ready.

    Args:
        table: What `batches` returned.

    Returns:
        `time`, `rank`, `loader`, `building`, `ready`: a row for each moment at which one of these changes.
    """
    parts = [Table.of_tuples(dict.fromkeys(("time", "rank", "loader", "building", "ready"), np.int64), [])]
    for (rank, loader), rows in sorted(groups(table["rank"], table["loader"]).items()):
        mine = table.where(rows)
        # One of a worker's own is ready at once when it is taken at once.
        taken = np.maximum(mine["taken"], mine["built"])
        when = np.concatenate([mine["begin"], mine["built"], taken])
        order = np.argsort(when, kind="stable")
        when = when[order]
        last = np.append(when[1:] != when[:-1], True)  # of changes at one moment the last holds
        columns = {
            "time": when,
            "rank": np.full(len(when), rank),
            "loader": np.full(len(when), loader),
            "building": np.cumsum(np.repeat([1, -1, 0], mine.rows)[order]),
            "ready": np.cumsum(np.repeat([0, 1, -1], mine.rows)[order]),
        }
        parts.append(Table(columns).where(last))
    return Table.concat(parts)


def hidden_pct(table: Table) -> float | None:
    """Return how much of the building of batches the training did not wait for, percent; None without any.

    0 for a loader without workers; 100 when every batch is ready before it is asked for.

    Args:
        table: What `batches` returned.
    """
    built = int((table["built"] - table["begin"]).sum())
    return max(100.0 * (1 - int(table["waited"].sum()) / built), 0.0) if built else None


def workers(spans: Table) -> list[Worker]:
    """Return the work of each worker of each loader, in order."""
    fetches, joins = (spans.where(spans["phase"] == phase) for phase in ("fetch", "collate"))
    loader = _loader_of_fetches(fetches, waits_of(spans, NEXT_BATCH))
    found = []
    for (rank, index, worker), rows in sorted(groups(fetches["rank"], loader, fetches["worker"]).items()):
        mine = fetches.where(rows).sorted("time")
        begin, took = mine["time"], mine["duration"]
        same = joins.where((joins["rank"] == rank) & (joins["worker"] == worker))
        at = np.searchsorted(begin, same["time"], side="right") - 1
        within = (at >= 0) & (same["time"] < (begin + took)[at])
        spent = max(int(took.sum()), 1)
        found.append(
            Worker(
                rank=rank,
                loader=index,
                worker=worker,
                batches=mine.rows,
                samples=int(np.nansum(mine["value"])),
                fetch_median=int(np.median(took)),
                busy_pct=100.0 * spent / max(int((begin + took).max() - begin.min()), spent),
                collate_pct=100.0 * int(same["duration"][within].sum()) / spent,
            )
        )
    return found


def waits_of(spans: Table, name: str) -> Table:
    """Return DATA_LOADING spans of one name, `NEXT_BATCH` or `ITERATOR_START`, in the order of time."""
    of = (spans["phase"] == "data_loading") & (spans["name"] == name)
    return spans.where(of).sorted("time")


def _loader_of_fetches(fetches: Table, waits: Table) -> NDArray[np.int64]:
    """Return the index of the loader of each fetch; -1 when it is not known.

    A worker says it in the name; what the training thread builds belongs to the wait around it.
    """
    names, codes = np.unique(fetches["name"].astype(str), return_inverse=True)
    words = [name.removeprefix("loader ") for name in names.tolist()]
    found = np.array([int(word) if word.isdecimal() else -1 for word in words], np.int64)[codes]
    for rank in np.unique(fetches["rank"]).tolist():
        own = np.flatnonzero((fetches["rank"] == rank) & (fetches["worker"] < 0))
        mine = waits.where((waits["rank"] == rank) & np.isfinite(waits["value"]))
        at = np.searchsorted(mine["time"], fetches["time"][own], side="right") - 1
        own, at = own[at >= 0], at[at >= 0]
        inside = fetches["time"][own] < (mine["time"] + mine["duration"])[at]
        found[own[inside]] = mine["value"][at[inside]]
    return found


def epochs(spans: Table) -> Iterator[tuple[Table, Table, int, int, int]]:
    """Yield waits for batches and fetches of one epoch of one loader; its rank, index and number."""
    starts, waits = waits_of(spans, ITERATOR_START), waits_of(spans, NEXT_BATCH)
    fetches = spans.where(spans["phase"] == "fetch").sorted("time")
    of = _loader_of_fetches(fetches, waits)
    known = waits.where(np.isfinite(waits["value"]))
    for (rank, loader), rows in sorted(groups(known["rank"], known["value"]).items()):
        mine, built = known.where(rows), fetches.where((fetches["rank"] == rank) & (of == loader))
        began = starts["time"][(starts["rank"] == rank) & (starts["value"] == loader)]
        asked, made = (np.searchsorted(began, table["time"], side="right") for table in (mine, built))
        for epoch in np.unique(asked).tolist():
            yield mine.where(asked == epoch), built.where(made == epoch), rank, int(loader), epoch


def _epoch(
    waits: Table, fetches: Table, rank: int, loader: int, epoch: int, workers: dict[int, int]
) -> Table | None:
    own = fetches["worker"] < 0
    if own.any():  # built where they are waited for; some fetches are not recorded
        at = np.searchsorted(waits["time"], fetches["time"], side="right") - 1
        number, fetches = at[own & (at >= 0)], fetches.where(own & (at >= 0))
    else:
        count = workers.get(loader) or int(fetches["worker"].max(initial=-1)) + 1
        turn = np.zeros(fetches.rows, np.int64)
        for worker in range(count):
            of = fetches["worker"] == worker
            turn[of] = np.arange(of.sum())
        number = turn * count + fetches["worker"]
        taken = number < waits.rows
        number, fetches = number[taken], fetches.where(taken)
    if not fetches.rows:
        return None
    order = np.argsort(number, kind="stable")
    number, fetches = number[order], fetches.where(order)
    begin = fetches["time"].astype(np.int64)
    built = begin + fetches["duration"]
    asked = waits["time"][number].astype(np.int64)
    taken_at = asked + waits["duration"][number]
    if (built > taken_at + _SLACK_NS).any():
        return None
    ready = np.maximum(asked, built)
    return Table(
        {
            "rank": np.full(len(number), rank),
            "loader": np.full(len(number), loader),
            "epoch": np.full(len(number), epoch),
            "number": number,
            "worker": fetches["worker"].astype(np.int64),
            "begin": begin,
            "built": built,
            "asked": asked,
            "taken": taken_at,
            "samples": fetches["value"],
            "queued": np.maximum(asked - built, 0),
            "waited": np.minimum(ready, taken_at) - asked,
            "handover": np.maximum(taken_at - ready, 0),
        }
    )
