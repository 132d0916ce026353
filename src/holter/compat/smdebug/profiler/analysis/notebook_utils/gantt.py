"""Events as bars on rows, for a look at a few hundred of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from holter.drawing.markup import html, tag

if TYPE_CHECKING:
    from markupsafe import Markup

    from holter.schema.table import Table

MOST = 500
_WIDTH, _LEFT, _ROW = 900, 220, 18


class _Bar(NamedTuple):
    row: str
    name: str
    start: int
    end: int


class Gantt:
    """The events of a stretch of time; the first 500 of each of both charts."""

    def __init__(self, rows: Table, start: int, end: int) -> None:
        """Take events, and where the charts begin and end, microseconds since the epoch."""
        self.start, self.end = start, max(end, start + 1)
        self.loading: list[_Bar] = []
        self.training: list[_Bar] = []
        columns = (rows[name].tolist() for name in ("phase", "name", "node", "tid", "start", "end"))
        for phase, name, node, tid, begin, until in zip(*columns, strict=True):
            if "dataloader" in f"{phase} {name}".lower():
                self.loading.append(_Bar(f"{node} {tid}", name, begin, until))
            else:
                self.training.append(_Bar(str(phase), name, begin, until))

    def to_html(self) -> str:
        """Return both charts as HTML."""
        return self._chart("Data loading", self.loading) + self._chart("Training", self.training)

    def _repr_html_(self) -> str:
        return self.to_html()

    def _chart(self, title: str, bars: list[_Bar]) -> Markup:
        if not bars:
            return html(tag("h3", title), tag("p", "No event."))
        rows = {row: number for number, row in enumerate(dict.fromkeys(bar.row for bar in bars[:MOST]))}
        scale = (_WIDTH - _LEFT) / (self.end - self.start)
        drawn = [
            tag("text", row[:34], x=0, y=_ROW * number + 13, font_size=11, fill="currentColor")
            for row, number in rows.items()
        ]
        for bar in bars[:MOST]:
            begin, end = max(bar.start, self.start), min(bar.end, self.end)
            drawn.append(
                tag(
                    "rect",
                    tag("title", f"{bar.name}: {bar.end - bar.start} µs"),
                    x=f"{_LEFT + (begin - self.start) * scale:.1f}",
                    y=_ROW * rows[bar.row] + 2,
                    width=f"{max((end - begin) * scale, 1):.1f}",
                    height=_ROW - 4,
                    fill="#3d85c6",
                    fill_opacity=0.7,
                )
            )
        box = {"viewBox": f"0 0 {_WIDTH} {_ROW * len(rows)}", "aria-label": title}
        chart = tag("svg", *drawn, width="100%", role="img", **box)
        more = tag("p", f"{len(bars) - MOST} more events are not drawn.") if len(bars) > MOST else None
        return html(tag("h3", title), chart, more)
