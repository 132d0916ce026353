"""The spans in which batches are built, for charts of the data loader."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holter.schema.table import Table
    from holter.views.reading import Reading

MISSING = (
    "No data-loader worker was recorded: the job has no torch DataLoader, or the loader has no workers and "
    "batches cost next to nothing."
)


def fetches(reading: Reading, rank: int | None) -> Table:
    """Return the fetches that begin in the window, those of one rank or of all."""
    spans = reading.loading.spans
    mine = spans["phase"] == "fetch"
    if reading.window is not None:
        mine &= (spans["time"] >= reading.since) & (spans["time"] < reading.until)
    if rank is not None:
        mine &= spans["rank"] == rank
    return spans.where(mine)
