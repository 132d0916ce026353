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
  not grow with the job: read it in time ranges (`holter.report.exports._stretches`).

Modules whose names begin with `_` are shared by formats.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Protocol, cast

from holter import plugins
from holter.schema.tables import TABLES

if TYPE_CHECKING:
    from pathlib import Path

    from holter.store.trial import Trial


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

    def where(self, table: str) -> str | None:
        """Return the SQL condition for the rows of a table by rank; time is asked for by `Trial.table`."""
        if self.ranks is None or not any(column.name == "rank" for column in TABLES[table].columns):
            return None
        return f"rank IN ({', '.join(map(str, self.ranks))})"


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
