"""Draws the parts of a whole as a ring, with a table of their names, shares and values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from holter.analysis.device.kernel_statistics import OTHERS
from holter.drawing.markup import tag
from holter.drawing.pieces import COLORS, drawing
from holter.drawing.ticks import number
from holter.views.wording import milliseconds, percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from markupsafe import Markup

    from holter.views.figure import Figure

_RADIUS, _THICK = 62, 34
SIZE = 2 * _RADIUS + _THICK + 4
_REST = ("idle", OTHERS, "other", "unknown")
"""Parts that get a quiet color."""


class Sector(NamedTuple):
    """A part of a whole."""

    name: str
    share: float
    """Percent of the whole."""
    value: str
    """How much it is, as text."""
    color: str
    """A CSS class."""
    label: str = ""
    """A short form of the name; the table has it, and the whole name in a tooltip."""


def ring_of(figure: Figure) -> Markup:
    """Draw a figure of shares."""
    return ring(figure.title, list(_sectors(figure)))


def ring(title: str, sectors: Sequence[Sector]) -> Markup:
    """Draw a ring, clockwise from the top, and the table of its sectors."""
    return tag("div", picture(title, sectors), _table(sectors), class_="parts")


def picture(title: str, sectors: Sequence[Sector]) -> Markup:
    """Draw the ring alone; each sector has its name, share and value as a tooltip."""
    drawn, before = [], 0.0
    for one in sectors:
        tooltip = tag("title", f"{one.name}: {percent(one.share)}", one.value and f" · {one.value}")
        arc = _arc(before, before + one.share)
        drawn.append(tag("path", tooltip, d=arc, stroke_width=_THICK, class_=f"sector {one.color}"))
        before += one.share
    return drawing(title, SIZE, SIZE, *drawn, width=SIZE, height=SIZE, class_="ring")


def _arc(begin: float, end: float) -> str:
    """Return the path from one share of the circle to another, percent; a whole circle takes two arcs."""
    if end - begin > 99.95:
        return _arc(0.0, 50.0) + _arc(50.0, 100.0)
    at = [math.tau * share / 100 for share in (begin, end)]
    (x, y), (to_x, to_y) = [
        (SIZE / 2 + _RADIUS * math.sin(one), SIZE / 2 - _RADIUS * math.cos(one)) for one in at
    ]
    large = int(end - begin > 50)
    return f"M{x:.2f} {y:.2f}A{_RADIUS} {_RADIUS} 0 {large} 1 {to_x:.2f} {to_y:.2f}"


def _table(sectors: Sequence[Sector]) -> Markup:
    return tag(
        "table",
        *(
            tag(
                "tr",
                tag("td", tag("i", class_=one.color)),
                tag("td", one.label or one.name, title=one.name if one.label else None),
                tag("td", percent(one.share), class_="n"),
                tag("td", one.value, class_="n"),
            )
            for one in sectors
        ),
        class_="shares",
    )


def _sectors(figure: Figure) -> Iterator[Sector]:
    values = [value or 0.0 for value in figure.series[0].values]
    whole = sum(values) or 1.0
    unit = figure.y_axis.unit
    for at, (key, value) in enumerate(zip(figure.x, values, strict=True)):
        name = str(key)
        if unit == "s":
            text = milliseconds(1000 * value)
        else:
            text = "" if unit == "%" else f"{number(value)} {figure.y_axis.label}".strip()
        color = "p-other" if key in _REST else f"c{at % COLORS}{' pale' * (at >= COLORS)}"
        label = figure.labels[at] if figure.labels and figure.labels[at] != name else ""
        yield Sector(name, 100.0 * value / whole, text, color, label)
