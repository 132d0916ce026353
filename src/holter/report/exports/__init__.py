"""Export formats: one module per format, named after it. The folder is the registry.

A format is a module with

* `ABOUT`: a short description for the help;
* `SUFFIX`: the suffix of its file, such as `.json`; empty for a folder. Text is compressed if the name that
  the user chose ends in `.gz` (`opened`);
* `SHOW`: how to open the result; `{output}` stands for its path;
* `NEEDS`: the data that a job must have for this format; the message "no scalars" names what is missing;
* `write(trial, chosen, output)`: writes the chosen part of a job, and returns the number of events, rows or
  values. `output` is a path that does not exist, or an empty folder. It is a draft: the command moves it into
  place when it is complete, and removes it after an error or when there was nothing to write. Memory must
  not grow with the job: read it in time ranges (`ExportSelection.stretches`).

Modules whose names begin with `_` are shared by formats.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Protocol, cast

from holter import plugins
from holter.schema.tables import TABLES
from holter.store.stretches import stretches

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from holter.schema.table import Table
    from holter.store.trial import Trial

ROWS = 100_000
"""Approximate number of rows in memory, all tables together."""


@dataclass(frozen=True, slots=True)
class ExportSelection:
    """The part of a job to export: rows of some ranks that begin in a time range."""

    start_ns: int | None = None
    """Rows at or after it, nanoseconds since the epoch; None for no limit."""
    end_ns: int | None = None
    """Rows before it."""
    ranks: tuple[int, ...] | None = None
    """Rows of these ranks; None for all. Tables without ranks, as samples, are not narrowed by it."""

    low_gpu_pct: float | None = None
    """Timelines mark readings of `gpu.util` below this, with all readings within 20 ms of them."""

    def where(self, table: str, condition: str | None = None, *, timed: bool = False) -> str | None:
        """Return the SQL condition for rows of a table: a condition, ranks, and with `timed` the time."""
        terms = [condition]
        if self.ranks is not None and any(column.name == "rank" for column in TABLES[table].columns):
            terms.append(f"rank IN ({', '.join(map(str, self.ranks))})")
        if timed and self.start_ns is not None:
            terms.append(f"time >= {self.start_ns}")
        if timed and self.end_ns is not None:
            terms.append(f"time < {self.end_ns}")
        return " AND ".join(f"({term})" for term in terms if term) or None

    def table(
        self, trial: Trial, name: str, condition: str | None = None, columns: Sequence[str] | None = None
    ) -> Table:
        """Read the selected rows of a table that fulfill an SQL condition."""
        where = self.where(name, condition)
        return trial.table(name, columns=columns, start_ns=self.start_ns, end_ns=self.end_ns, where=where)

    def stretches(self, trial: Trial, tables: Mapping[str, str | None]) -> Iterator[dict[str, Table]]:
        """Read tables together in time ranges, so that memory does not grow with the job.

        Each table comes with an SQL condition for its rows, or None. A row belongs to the range of its begin.
        """
        for start, end in stretches(trial, tables, ROWS, start_ns=self.start_ns, end_ns=self.end_ns):
            part = replace(self, start_ns=start, end_ns=end)
            yield {name: part.table(trial, name, condition) for name, condition in tables.items()}


def opened(output: Path) -> IO[bytes]:
    """Open a file to write, compressed when its name ends in `.gz`."""
    # Level 3 takes a third of the time of the usual one, and a tenth more space.
    return cast("IO[bytes]", gzip.open(output, "wb", 3) if output.suffix == ".gz" else output.open("wb"))


class Format(Protocol):
    """The interface of a module of this folder; see above."""

    ABOUT: str
    SUFFIX: str
    SHOW: str
    NEEDS: str

    def write(self, trial: Trial, chosen: ExportSelection, output: Path) -> int:
        """Write a job, and return how much of it was written."""


def formats() -> dict[str, Format]:
    """Return all formats by name."""
    return dict(plugins.modules(__name__))
