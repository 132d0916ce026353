"""Print the utilization of machines as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holter.views.wording import reading_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table

_MOST_ROWS = 40


def utilization(rows: list[Mapping[str, Any]]) -> Table:
    """Return a table of a description's `utilization`, with one row per metric and device."""
    from rich.table import Table

    nodes = {row["node"] for row in rows}
    table = Table(box=None, pad_edge=True, padding=(0, 1), header_style="bright_black")
    if len(nodes) > 1:
        table.add_column("node", overflow="ellipsis", no_wrap=True)
    table.add_column("metric", no_wrap=True)
    for name in ("min", "p50", "p95", "max"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("unit", no_wrap=True, style="bright_black")
    for row in rows[:_MOST_ROWS]:
        name = row["metric"] + (f" {row['device']}" if row.get("device") else "")
        unit = "" if row["unit"].startswith("bytes") else row["unit"]
        cells = [name, *(reading_text(row[key], row["unit"]) for key in ("min", "p50", "p95", "max")), unit]
        table.add_row(*([row["node"], *cells] if len(nodes) > 1 else cells))
    if len(rows) > _MOST_ROWS:
        table.add_row(f"... {len(rows) - _MOST_ROWS} more with --json")
    return table
