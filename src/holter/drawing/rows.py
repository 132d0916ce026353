"""Draws stretches of time in rows, for example one row per worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.drawing.markup import tag
from holter.drawing.pieces import BOTTOM, RIGHT, TOP, WIDTH, color, short, text
from holter.drawing.ticks import number, ticks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markupsafe import Markup

    from holter.views.figure import Figure

_ROW = 18
_LEFT = 120


def height(figure: Figure) -> int:
    """Return the height of a figure."""
    return TOP + BOTTOM + _ROW * len(figure.rows or ())


def marks(figure: Figure, height: int) -> Iterator[Markup]:
    """Draw a bar for each stretch, later series over earlier ones."""
    first, last = figure.x[0], figure.x[-1]
    unit = (WIDTH - RIGHT - _LEFT) / ((last - first) or 1.0)
    for at in ticks(first, last, 6):
        x = _LEFT + (at - first) * unit
        yield tag("line", x1=f"{x:.1f}", x2=f"{x:.1f}", y1=TOP, y2=height - BOTTOM, class_="grid")
        yield text(x, height - BOTTOM + 16, number(at), "tick mid")
    axis = figure.x_axis
    yield text((_LEFT + WIDTH - RIGHT) / 2, height - 6, f"{axis.label} ({axis.unit})", "label mid")
    for row, name in enumerate(figure.rows or ()):
        yield text(_LEFT - 6, TOP + _ROW * row + 13, short(name, 18), "tick end")
    for at, series in enumerate(figure.series):
        # One path for each series: thousands of stretches stay a small page.
        path = []
        for place, begin, end in zip(series.values, series.low or (), series.high or (), strict=True):
            if place is not None and begin is not None and end is not None:
                x, width = _LEFT + (begin - first) * unit, max((end - begin) * unit, 0.6)
                path.append(f"M{x:.1f} {TOP + _ROW * place + 3:.0f}h{width:.1f}v12h-{width:.1f}z")
        yield tag("path", d="".join(path), class_=f"bar {color(series, at)}")
