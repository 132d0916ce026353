"""Reads as much of a job's tables as a description needs, so that a day of training takes seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.machine.utilization import told_device, utilization
from holter.analysis.steps.named_work import NAMED, PHASES
from holter.analysis.steps.steps import steps as build_steps
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holter.store.trial import Trial
    from holter.views.document.types.values import TableRow

MOST_ROWS = 300_000
"""A table with more rows is read in stretches that are spread over the whole job."""
LONG = 2_000_000
STRETCH_NS = 30_000_000_000
MOST_RANGES = 64
"""Up to this number, stretches are queried as time ranges, which lets the reader skip files."""
_TRAINER = "worker = -1"
_LOADING = (
    "phase IN ('data_loading', 'fetch', 'collate', 'stack', 'step', 'loop_stack', 'gc', 'loss', 'h2d') "
    "AND (phase NOT IN ('loss', 'h2d') OR duration > 1000000)"
)


@dataclass(frozen=True, slots=True)
class Stretches:
    """The parts of a job that are read: the first of every `every` stretches of half a minute."""

    start: int
    every: int
    end: int
    """The newest row of all."""

    @classmethod
    def of(
        cls,
        trial: Trial,
        start: int,
        *,
        tables: Sequence[str] = ("samples", "steps", "spans"),
        where: str = "true",
    ) -> Stretches:
        """Choose as many stretches of the job, or of rows of it, as can be read in a second."""
        asked = (f"SELECT count(*) AS rows FROM {table} WHERE {where}" for table in tables)  # noqa: S608
        most = max(int(trial.sql(query)["rows"][0]) for query in asked)
        end = max((trial.newest(table) or start for table in tables), default=start)
        return cls(start, max(1, -(-most // MOST_ROWS)), end)

    @property
    def whole(self) -> bool:
        """Whether the stretches cover all of the job."""
        return self.every == 1

    @property
    def where(self) -> str | None:
        """The condition for rows that begin in one of them; None when all do."""
        if self.whole:
            return None
        begins = range(self.start, self.end + 1, STRETCH_NS * self.every)
        if len(begins) > MOST_RANGES:
            return f"(time - {self.start}) // {STRETCH_NS} % {self.every} = 0"
        ranges = (f"(time >= {begin} AND time < {begin + STRETCH_NS})" for begin in begins)
        return f"({' OR '.join(ranges)})"

    def inside(self, steps: Table) -> Table:
        """Keep the steps that lie within one of them as a whole."""
        if self.whole:
            return steps
        begin = (steps["time"] - self.start) // STRETCH_NS
        end = (steps["time"] + steps["duration"] - self.start) // STRETCH_NS
        return steps.where((begin % self.every == 0) & (begin == end))

    def samples(self, trial: Trial) -> Table:
        """Return table `samples`."""
        return trial.table("samples", where=self.where)

    def named(self, trial: Trial) -> Table:
        """Return the spans that `named_work` reads; empty where no span names its work."""
        where = "true" if self.whole else self.where
        found = trial.sql(f"SELECT DISTINCT phase, name FROM spans WHERE phase IN {NAMED} LIMIT 2")  # noqa: S608
        # One kind of collective alone needs no division.
        if not found.rows or (found.rows == 1 and found["phase"][0] == "communication"):
            return Table.empty("spans")
        return trial.table("spans", where=f"{_TRAINER} AND phase IN {PHASES} AND {where}")

    def loading(self, trial: Trial) -> Table:
        """Return the spans of data loading, and those of steps, which identify the thread of the loop."""
        where = _LOADING if self.whole else f"{_LOADING} AND {self.where}"
        return trial.table("spans", where=where)


def is_long(trial: Trial) -> bool:
    """Return whether a job has so many rows that its description takes a noticeable time."""
    return trial.rows("samples") + trial.rows("steps") + trial.rows("spans") > LONG


def steps_of(
    trial: Trial,
    known: Table | None = None,
    *,
    columns: Sequence[str] | None = None,
) -> Table:
    """Return table `steps`: the stored steps, and newer ones that are computed from spans.

    Only the evaluation of rules stores steps. The newest steps of a running job, and steps of a job without
    rules or with a dead machine, are missing in the store. `known` is an earlier result, after which only new
    steps are read. `columns` must contain `time`, `duration` and `rank`.
    """
    stored = known if known is not None and known.rows else trial.table("steps", columns=columns)
    if not stored.rows:
        built = build_steps(trial.table("spans", where=_TRAINER))
        return built if columns is None else Table({name: built[name] for name in columns})
    ends = stored["time"] + stored["duration"]
    last = {rank: int(ends[stored["rank"] == rank].max()) for rank in np.unique(stored["rank"]).tolist()}
    fresh = build_steps(trial.table("spans", where=_TRAINER, start_ns=min(last.values())))
    if not fresh.rows:
        return stored
    if known is not None and not set(np.unique(fresh["rank"]).tolist()) <= set(last):
        return steps_of(trial)  # a rank joined late: it has earlier steps
    done = np.array([last.get(rank, 0) for rank in fresh["rank"].tolist()], dtype=np.int64)
    fresh = fresh.where(fresh["time"] >= done)
    return Table.concat([stored, Table({name: fresh[name] for name in stored.names})])


def utilization_of(
    trial: Trial, samples: Table, stretches: Stretches, *, by_device: bool = False, where: str = "true"
) -> list[TableRow]:
    """Return the statistics of each metric; the extremes are those of all readings in any case."""
    rows = utilization(samples, by_device=by_device)
    if stretches.whole:
        return rows
    asked = trial.sql(
        "SELECT node, metric, device, count(*) AS count, min(value) AS min, max(value) AS max "  # noqa: S608
        f"FROM samples WHERE NOT isnan(value) AND {where} GROUP BY ALL"
    )
    exact: dict[tuple[str, str, str], TableRow] = {}
    for one in asked.to_rows():
        key = one["node"], one["metric"], told_device(one["metric"], one["device"], by_device=by_device)
        known = exact.setdefault(key, {"count": 0, "min": one["min"], "max": one["max"]})
        known["count"] += one["count"]
        known["min"], known["max"] = min(known["min"], one["min"]), max(known["max"], one["max"])
    return [{**row, **exact[row["node"], row["metric"], row["device"]]} for row in rows]
