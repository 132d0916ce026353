"""Selects a part of a job: a time range, some nodes, some ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holter.schema.tables import TABLES
from holter.store.parquet.queries import literals
from holter.views.tables import steps_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holter.schema.table import Table
    from holter.store.trial import Trial

_ALWAYS = ("time", "duration", "rank", "node")


@dataclass(frozen=True, slots=True)
class Part:
    """The rows that count; all rows by default."""

    start_ns: int | None = None
    """Rows that begin at or after it, nanoseconds since the epoch."""
    end_ns: int | None = None
    """Rows that begin before it."""
    nodes: tuple[str, ...] | None = None
    ranks: tuple[int, ...] | None = None
    """Of tables without ranks, as samples, all rows count."""

    @property
    def whole(self) -> bool:
        """Whether all rows count."""
        return self == Part()

    def condition(self, table: str) -> str | None:
        """Return the SQL condition by node and rank for the rows of a table; None for all."""
        terms = []
        if self.nodes is not None:
            terms.append(f"node IN ({literals(self.nodes) or 'NULL'})")
        if self.ranks is not None and any(column.name == "rank" for column in TABLES[table].columns):
            terms.append(f"rank IN ({', '.join(str(int(rank)) for rank in self.ranks) or 'NULL'})")
        return " AND ".join(terms) or None

    def sql(self, table: str) -> str:
        """Return the SQL condition by node, rank and time for the rows of a table."""
        terms = [self.condition(table) or "true"]
        if self.start_ns is not None:
            terms.append(f"time >= {int(self.start_ns)}")
        if self.end_ns is not None:
            terms.append(f"time < {int(self.end_ns)}")
        return " AND ".join(terms)

    def table(
        self, trial: Trial, name: str, *, columns: Sequence[str] | None = None, where: str | None = None
    ) -> Table:
        """Read the rows of a table that count; `where` narrows them down further."""
        conditions = [f"({term})" for term in (self.condition(name), where) if term]
        return trial.table(
            name,
            columns=columns,
            start_ns=self.start_ns,
            end_ns=self.end_ns,
            where=" AND ".join(conditions) or None,
        )

    def steps(self, trial: Trial, columns: Sequence[str] | None = None) -> Table:
        """Return the steps that count; steps that are not stored yet are computed from spans.

        With `columns`, the result has them, and the begin, duration and place of each step.
        """
        asked = None if columns is None else tuple(dict.fromkeys((*_ALWAYS, *columns)))
        steps = steps_of(trial, columns=asked)
        if self.whole or not steps.rows:
            return steps
        mask = np.ones(steps.rows, dtype=bool)
        if self.start_ns is not None:
            mask &= steps["time"] >= self.start_ns
        if self.end_ns is not None:
            mask &= steps["time"] < self.end_ns
        if self.nodes is not None:
            mask &= np.isin(steps["node"].astype(str), self.nodes)
        if self.ranks is not None:
            mask &= np.isin(steps["rank"], self.ranks)
        return steps.where(mask)

    def of_steps(self, trial: Trial, first: int, last: int) -> Part:
        """Return the part from the start of one step to the end of another, both included.

        Raises `LookupError` with the recorded steps if none of these steps was recorded.
        """
        steps = self.steps(trial, columns=("step",))
        mine = steps.where((steps["step"] >= first) & (steps["step"] <= last))
        if not mine.rows:
            there = f"{steps['step'].min()} to {steps['step'].max()}" if steps.rows else "none"
            raise LookupError(f"no step from {first} to {last} was recorded; recorded steps: {there}")
        end = int((mine["time"] + mine["duration"]).max())
        return Part(int(mine["time"].min()), end, self.nodes, self.ranks)
