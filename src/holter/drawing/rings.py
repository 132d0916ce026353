"""Parts of a whole as a ring, and beside it a table of their names, shares and values."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from holter.analysis.device.kernel_statistics import OTHERS
from holter.drawing.pieces import COLORS
from holter.drawing.ticks import number
from holter.views.wording import milliseconds, percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.views.figure import Figure

_RADIUS, _THICK = 62, 34
SIZE = 2 * _RADIUS + _THICK + 4
_REST = ("idle", OTHERS, "other", "unknown")
"""Parts that stand back."""


def ring(figure: Figure) -> str:
    """Draw the ring, clockwise from the top; each sector tells its part where a pointer rests on it."""
    sectors, before = [], 0.0
    for name, share, said, kind in _parts(figure):
        told = f"<title>{escape(name)}: {percent(share)}{said and f' · {said}'}</title>"
        sectors.append(
            f'<path d="{_arc(before, before + share)}" stroke-width="{_THICK}" class="sector {kind}">'
            f"{told}</path>"
        )
        before += share
    name = escape(figure.title, quote=True)
    return (
        f'<svg viewBox="0 0 {SIZE} {SIZE}" width="{SIZE}" height="{SIZE}" role="img" aria-label="{name}" '
        f'class="ring"><title>{name}</title>{"".join(sectors)}</svg>'
    )


def _arc(begin: float, end: float) -> str:
    """Return the path from one share of the circle to another, percent; a whole one takes two arcs."""
    if end - begin > 99.95:
        return _arc(0.0, 50.0) + _arc(50.0, 100.0)
    at = [math.tau * share / 100 for share in (begin, end)]
    (x, y), (to_x, to_y) = [
        (SIZE / 2 + _RADIUS * math.sin(one), SIZE / 2 - _RADIUS * math.cos(one)) for one in at
    ]
    large = int(end - begin > 50)
    return f"M{x:.2f} {y:.2f}A{_RADIUS} {_RADIUS} 0 {large} 1 {to_x:.2f} {to_y:.2f}"


def listed(figure: Figure) -> str:
    """Return the parts as a table; of a name that is long the short form, the whole in a tooltip."""
    rows = []
    for at, (name, share, said, kind) in enumerate(_parts(figure)):
        label = figure.labels[at] if figure.labels else name
        whole = f' title="{escape(name, quote=True)}"' if label != name else ""
        rows.append(
            f'<tr><td><i class="{kind}"></i></td><td{whole}>{escape(label)}</td>'
            f"<td class=n>{percent(share)}</td><td class=n>{said}</td></tr>"
        )
    return f'<table class="shares">{"".join(rows)}</table>'


def _parts(figure: Figure) -> Iterator[tuple[str, float, str, str]]:
    """Yield of each part its name, its share in percent, its value in words and the class of its color."""
    values = [value or 0.0 for value in figure.series[0].values]
    whole = sum(values) or 1.0
    unit = figure.y_axis.unit
    for at, (name, value) in enumerate(zip(figure.x, values, strict=True)):
        if unit == "s":
            said = milliseconds(1000 * value)
        else:
            said = "" if unit == "%" else f"{number(value)} {figure.y_axis.label}".strip()
        kind = "p-other" if name in _REST else f"c{at % COLORS}{' pale' * (at >= COLORS)}"
        yield str(name), 100.0 * value / whole, said, kind
