"""Facts of a job for its rules: start and end, and what becomes known later (steps, warm-up, activity)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.events import framework
from holter.rules import JobFacts
from holter.rules.engine.job_facts import WARMUP_STEPS
from holter.schema.table import Table, detail_of
from holter.schema.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from holter.store.documents import Document
    from holter.store.trial import Trial

_DAY_NS = 24 * 3_600_000_000_000
FAR_NS = _DAY_NS
"""A manifest whose times differ this much from the rows is wrong: agents write rows all the time."""
LONGEST_NS = 1000 * _DAY_NS
"""The longest training; a longer one has damaged times, and its evaluation would take hours."""


class FactsTracker:
    """Collects facts from rows; `at` returns the facts that were known at a moment."""

    def __init__(
        self,
        *,
        start: int,
        interval_ms: int,
        nodes: Mapping[str, Document],
        url: str = "",
        total_steps: int | None = None,
    ) -> None:
        self.start = start
        self.url = url
        self.interval_ms = interval_ms
        self.nodes = nodes
        self.total_steps = total_steps
        self.first: tuple[int, int] | None = None
        """The begin of the first step, and its end."""
        self.counts: dict[int, int] = {}
        self.warm: dict[int, int] = {}
        self.trainer: int | None = None
        """When the first training process was seen."""
        self.observed: tuple[str, ...] = ()
        self._active: dict[int, NDArray[np.int64]] = {}

    def steps(self, steps: Table) -> None:
        """Take new steps, in the order of time."""
        if not steps.rows:
            return
        ends = steps["time"] + steps["duration"]
        if self.first is None:
            # The step that ended first is the first to be known; the batches of rows do not change that.
            first = np.lexsort((steps["time"], ends))[0]
            self.first = (int(steps["time"][first]), int(ends[first]))
        for rank in np.unique(steps["rank"]).tolist():
            mine = np.sort(ends[steps["rank"] == rank])
            before = self.counts.get(rank, 0)
            if before < WARMUP_STEPS <= before + len(mine):
                self.warm[rank] = int(mine[WARMUP_STEPS - before - 1])
            self.counts[rank] = before + len(mine)

    def spans(self, ranks: NDArray[Any], ends: NDArray[np.int64]) -> None:
        """Take the ranks and ends of new spans."""
        order = np.lexsort((ends, ranks))
        ranks, ends = ranks[order], ends[order]
        for rank in np.unique(ranks).tolist():
            low, high = np.searchsorted(ranks, [rank, rank + 1])
            known = self._active.get(rank, np.empty(0, dtype=np.int64))
            self._active[rank] = np.sort(np.concatenate([known, ends[low:high]]))

    def events(self, events: Table) -> None:
        """Take new events."""
        for row in events.where(events["kind"] == "process").to_rows():
            if detail_of(row["detail"]).get("role", "trainer") == "trainer":
                self.trainer = min(row["time"], self.trainer or row["time"])
        told = framework(events)
        if told is not None and isinstance(parts := told.get("parts"), list):
            self.observed = tuple(map(str, parts))

    def forget(self, until: int) -> None:
        """Remove activity that no moment after `until` needs."""
        for rank, ends in self._active.items():
            self._active[rank] = ends[max(0, int(np.searchsorted(ends, until, side="right")) - 1) :].copy()

    def at(self, moment: int, *, ended: bool = False) -> JobFacts:
        """Return the facts as known at a moment."""
        active = {}
        for rank, ends in self._active.items():
            if i := int(np.searchsorted(ends, moment, side="right")):
                active[rank] = int(ends[i - 1])
        return JobFacts(
            start=self.start,
            interval_ms=self.interval_ms,
            nodes=self.nodes,
            first_step=self.first[0] if self.first and self.first[1] <= moment else None,
            warm={rank: when for rank, when in self.warm.items() if when <= moment},
            active=active,
            trainers=self.trainer is not None and self.trainer <= moment,
            ended=ended,
            observed=self.observed,
            total_steps=self.total_steps,
            url=self.url,
        )

    def kept(self, moment: int) -> Document:
        """Return the data for a restart; keys are texts, as in JSON."""
        return {
            "first": self.first,
            "counts": {str(r): n for r, n in self.counts.items()},
            "warm": {str(r): when for r, when in self.warm.items()},
            "trainer": self.trainer,
            "observed": list(self.observed),
            "active": {str(r): when for r, when in self.at(moment).active.items()},
        }

    def restore(self, kept: Document) -> None:
        """Restore the result of `kept`."""
        first = kept.get("first")
        self.first = (first[0], first[1]) if first else None
        self.counts = {int(r): n for r, n in kept.get("counts", {}).items()}
        self.warm = {int(r): when for r, when in kept.get("warm", {}).items()}
        self.trainer = kept.get("trainer")
        self.observed = tuple(kept.get("observed", ()))
        self._active = {int(r): np.array([when]) for r, when in kept.get("active", {}).items()}


def began(trial: Trial) -> int:
    """Return when a job began, ns since the epoch: the time in its manifest, unless its rows are far off."""
    manifest = trial.manifest
    start = manifest.get("start") or manifest.get("created")
    oldest, newest = _rows(trial)
    if oldest is None:
        end = manifest.get("end")
        far = start is None or (end is not None and end - start > FAR_NS)
        return (end or 0) if far else start or 0
    if newest is not None and newest - oldest > LONGEST_NS:
        days = (newest - oldest) // _DAY_NS
        raise ValueError(
            f"the rows of job {trial.folder.name} lie {days:,} days apart, so its times are damaged; "
            f"rules judge jobs of at most {LONGEST_NS // _DAY_NS:,} days"
        )
    return oldest if start is None or abs(oldest - start) > FAR_NS else start


def until(trial: Trial, newest: int) -> int:
    """Return the last moment to judge: the end in the manifest, unless the rows end long before it.

    Args:
        trial: The job.
        newest: The end of the newest row that was read, or the start of the job.
    """
    end = trial.manifest.get("end")
    if end is None:
        return newest
    latest = max(newest, _rows(trial)[1] or 0)
    return latest if end - latest > FAR_NS else int(end)


def _rows(trial: Trial) -> tuple[int | None, int | None]:
    """Return the oldest and the newest time of a job's rows, as recorded with its files."""
    oldest = [time for name in TABLES if (time := trial.oldest(name)) is not None]
    newest = [time for name in TABLES if (time := trial.newest(name)) is not None]
    return min(oldest, default=None), max(newest, default=None)
