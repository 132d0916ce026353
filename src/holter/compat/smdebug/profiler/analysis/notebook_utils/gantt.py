"""Events as bars on rows, for a look at a few hundred of them."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holter.schema.table import Table

MOST = 500
_WIDTH, _LEFT, _ROW = 900, 220, 18


class Gantt:
    """The events of a stretch of time; the first 500 of each of both charts."""

    def __init__(self, rows: Table, start: int, end: int) -> None:
        """Take events, and where the charts begin and end, microseconds since the epoch."""
        self.start, self.end = start, max(end, start + 1)
        self.loading: list[dict[str, Any]] = []
        self.training: list[dict[str, Any]] = []
        for row in rows.to_rows():
            loads = "dataloader" in f"{row['phase']} {row['name']}".lower()
            (self.loading if loads else self.training).append(row)

    def to_html(self) -> str:
        """Return both charts as HTML."""
        loading = {id(row): f"{row['node']} {row['tid']}" for row in self.loading[:MOST]}
        training = {id(row): str(row["phase"]) for row in self.training[:MOST]}
        charts = (("Data loading", loading, self.loading), ("Training", training, self.training))
        return "".join(self._chart(title, labels, rows) for title, labels, rows in charts)

    def _repr_html_(self) -> str:
        return self.to_html()

    def _chart(self, title: str, labels: dict[int, str], rows: list[dict[str, Any]]) -> str:
        if not rows:
            return f"<h3>{title}</h3><p>No event.</p>"
        lines = {label: number for number, label in enumerate(dict.fromkeys(labels.values()))}
        height = _ROW * len(lines)
        scale = (_WIDTH - _LEFT) / (self.end - self.start)
        drawn = [
            f'<text x="0" y="{_ROW * number + 13}" font-size="11" fill="currentColor">'
            f"{escape(label[:34])}</text>"
            for label, number in lines.items()
        ]
        for row in rows[:MOST]:
            begin, end = max(row["start"], self.start), min(row["end"], self.end)
            told = f"{row['name']}: {row['end'] - row['start']} µs"
            top = _ROW * lines[labels[id(row)]] + 2
            drawn.append(
                f'<rect x="{_LEFT + (begin - self.start) * scale:.1f}" y="{top}" '
                f'width="{max((end - begin) * scale, 1):.1f}" height="{_ROW - 4}" fill="#3d85c6" '
                f'fill-opacity="0.7"><title>{escape(told)}</title></rect>'
            )
        more = f"<p>{len(rows) - MOST} more events are not drawn.</p>" if len(rows) > MOST else ""
        return (
            f'<h3>{title}</h3><svg viewBox="0 0 {_WIDTH} {height}" width="100%" role="img" '
            f'aria-label="{title}">{"".join(drawn)}</svg>{more}'
        )
