"""Reads the tables of a job in time ranges, so that memory does not grow with the job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.store.stretches import stretches

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holter.report.exports import ExportSelection
    from holter.schema.table import Table
    from holter.store.trial import Trial

ROWS = 100_000
"""Approximate number of rows in memory, all tables together."""


def read(
    trial: Trial, chosen: ExportSelection, tables: Mapping[str, str | None]
) -> Iterator[dict[str, Table]]:
    """Read tables together, one stretch of time after another.

    Args:
        trial: The job.
        chosen: Which part of it.
        tables: Names of tables, each with an SQL condition on its rows, or None.

    Yields:
        The rows of each table that begin in one stretch, in the order of time. A row is in one of them.
    """
    for start, end in stretches(trial, tables, ROWS, start_ns=chosen.start_ns, end_ns=chosen.end_ns):
        found = {}
        for name, condition in tables.items():
            terms = [f"({term})" for term in (condition, chosen.where(name)) if term]
            where = " AND ".join(terms) or None
            found[name] = trial.table(name, start_ns=start, end_ns=end, where=where)
        yield found
