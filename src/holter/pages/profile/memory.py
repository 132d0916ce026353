"""The view of memory: what GPUs hold over time, and copies and fills."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.device.kernel_statistics import memory_table
from holter.pages.forms import number, picture
from holter.pages.layout import bare, grid
from holter.pages.tables import Number, share_cell, sortable, time_cell
from holter.views.figures.device._shares import profiled
from holter.views.wording import size, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from markupsafe import Markup

    from holter.pages.islands import Rendering
    from holter.schema.table import Table
    from holter.views.reading import Reading

TITLE = "Memory"
SHOWN = 40
_HEADS = ("kind", "memory of the host", "operations", "time", "bytes", "of the time", "GB/s")


def present(reading: Reading) -> bool:
    """Whether an accelerator's work was recorded."""
    return reading.profiled.ran


def draw(reading: Reading, asked: Mapping[str, str], rendering: Rendering) -> Iterator[Markup]:
    """Draw the view."""
    seen = reading.profiled
    rank, device = number(asked, "rank"), number(asked, "device")
    tables = profiled(reading, rank if seen.ranks else None, device if seen.devices else None)
    copied = bool(tables["memory_operations"].rows)
    yield grid(
        bare(picture(rendering, reading, "device_memory", asked), columns=12),
        bare(picture(rendering, reading, "memory_operations", asked), columns=4),
        bare(sortable(rendering, "memory", "Copies and fills of memory", _HEADS, _memory(tables)), columns=8)
        if copied
        else None,
    )


def _memory(tables: Mapping[str, Table]) -> Iterator[list[str]]:
    for row in memory_table(tables).to_rows():
        known = row["gb_per_s"] == row["gb_per_s"]
        yield [
            words(row["kind"]),
            row["memory"] or "unknown",
            Number(row["operations"]),
            time_cell(row["total_ns"]),
            Number(row["bytes"], size(row["bytes"]) if row["bytes"] else "unknown"),
            share_cell(row["share_pct"]),
            Number(row["gb_per_s"] if known else None, f"{row['gb_per_s']:.3g}" if known else "unknown"),
        ]
