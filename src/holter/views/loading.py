"""Reads the spans and batches of data loading once for all charts."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.loading.dataloading import loaders
from holter.analysis.loading.loader_timeline import batches

if TYPE_CHECKING:
    from holter.schema.table import Table
    from holter.store.trial import Trial

MOST_ROWS = 1_000_000
"""Beyond this number of spans, only the last ones of the lowest rank are read."""
_PHASES = "phase IN ('data_loading', 'fetch', 'collate')"
_COLUMNS = ("time", "duration", "rank", "worker", "thread", "phase", "name", "value")


class Loading:
    """The spans of data loading, and the batches that they belong to."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self.note = ""
        """A sentence about omitted spans; empty if all spans were read."""

    @cached_property
    def spans(self) -> Table:
        """Waits, fetches and collations."""
        counted = self._trial.sql(
            f"SELECT rank, count(*) AS number, max(time) AS last FROM spans WHERE {_PHASES} GROUP BY rank"  # noqa: S608
        )
        if int(counted["number"].sum()) <= MOST_ROWS:
            return self._trial.table("spans", columns=_COLUMNS, where=_PHASES)
        rank = int(counted["rank"].min())
        found = self._trial.table("spans", columns=_COLUMNS, where=f"{_PHASES} AND rank = {rank}")
        self.note = f"Of rank {rank} only" + (", and the end of the job." if found.rows > MOST_ROWS else ".")
        return found.where(slice(max(found.rows - MOST_ROWS, 0), None))

    @cached_property
    def batches(self) -> Table:
        """Each batch from the worker that built it to the training thread that took it."""
        facts = loaders(self._trial.table("events", where="kind = 'loader'"))
        counts = {one["index"]: one["workers"] for one in facts if one.get("workers") and "index" in one}
        return batches(self.spans, counts)

    @property
    def ranks(self) -> list[int]:
        """Ranks that load."""
        return [int(rank) for rank in np.unique(self.spans["rank"]) if rank >= 0]

    def between(self, start_ns: int, end_ns: int, rank: int) -> Table:
        """Return the spans of one rank that reach into a stretch of time."""
        spans = self.spans
        mine = (spans["rank"] == rank) & (spans["time"] < end_ns)
        return spans.where(mine & (spans["time"] + spans["duration"] > start_ns))
