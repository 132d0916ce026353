"""Reads what `holter top` shows of a job: its description, its progress, and how it does now."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from holter.store.trial import Trial
from holter.views.document.progress import progress
from holter.views.jobs import why_not_running
from holter.views.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.schema.table import Table
    from holter.store.job import JobFolder
    from holter.views.document.progress import JobProgress
    from holter.views.document.types import Description

RECENT_STEPS = 50
"""Steps of each rank that tell how it does now."""
RECENT_NS = 20_000_000_000
"""A reading that is older than the newest one by more than this is left out."""
Device = tuple[str, str]
"""Node and device; the device is empty for the whole node."""


class RankNow(NamedTuple):
    """The newest steps of one rank."""

    rank: int
    step: int
    mean_ms: float
    waits_pct: float
    """Share of the steps in which it waits for other ranks."""


@dataclass(frozen=True)
class Snapshot:
    """A job at one moment."""

    name: str
    description: Description
    progress: JobProgress
    steps: Table
    ranks: list[RankNow]
    readings: dict[str, dict[Device, float]]
    """The newest reading of each metric."""
    running: bool
    took_s: float
    """CPU time that reading it took."""

    @property
    def newest_ms(self) -> list[float]:
        """The step times of the lowest rank, in order."""
        if not self.steps.rows:
            return []
        mine = self.steps.where(self.steps["rank"] == self.steps["rank"].min()).sorted("time")
        newest: list[float] = (mine["duration"] / 1e6).tolist()
        return newest


def look(folder: JobFolder, before: Snapshot | None = None) -> Snapshot:
    """Read a job; `before` is an earlier look at it, whose steps are not read again.

    Raises:
        OSError: The job cannot be read.
        ValueError: Its files are damaged.
    """
    began = time.thread_time()
    trial = Trial(folder)
    reading = Reading(trial, before=before.steps if before else None)
    description = reading.description
    return Snapshot(
        name=folder.name,
        description=description,
        progress=progress(reading),
        steps=reading.steps,
        ranks=list(_ranks(reading.steps)),
        readings=_readings(trial, reading.end),
        running=why_not_running(folder) is None,
        took_s=time.thread_time() - began,
    )


def _ranks(steps: Table) -> Iterator[RankNow]:
    for rank in np.unique(steps["rank"]).tolist():
        newest = steps.where(steps["rank"] == rank).sorted("time").where(slice(-RECENT_STEPS, None))
        whole = float(newest["duration"].sum())
        yield RankNow(
            rank=int(rank),
            step=int(newest["step"][-1]) + 1,
            mean_ms=whole / newest.rows / 1e6,
            waits_pct=100 * float(newest["communication"].sum()) / whole if whole else 0.0,
        )


def _readings(trial: Trial, end_ns: int) -> dict[str, dict[Device, float]]:
    samples = trial.table("samples", start_ns=end_ns - 3 * RECENT_NS).sorted("time")
    found: dict[str, dict[Device, float]] = {}
    if not samples.rows:
        return found
    samples = samples.where(samples["time"] >= int(samples["time"][-1]) - RECENT_NS)
    columns = (samples[name].tolist() for name in ("metric", "node", "device", "value"))
    for metric, node, device, value in zip(*columns, strict=True):
        if np.isfinite(value):
            found.setdefault(metric, {})[node, device] = value
    return found
