"""Parts of a whole as a ring, and beside it their names, shares and values."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from holter.analysis.kernel_statistics import OTHERS
from holter.report.pieces import COLORS, RIGHT, TOP, WIDTH, bar, short, text
from holter.report.ticks import number
from holter.views.wording import milliseconds, percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.views.figures import Figure

_ROW = 18
_RADIUS, _THICK = 62, 34
_LEFT = 200
"""Where names begin."""
_REST = ("idle", OTHERS, "other", "unknown")
"""Parts that stand back."""


def height(figure: Figure) -> int:
    """Return how much room a figure needs."""
    return 2 * TOP + max(2 * _RADIUS + _THICK, _ROW * len(figure.x))


def marks(figure: Figure, height: int) -> Iterator[str]:
    """Draw the ring, clockwise from the top, and a row for each part."""
    values = [value or 0.0 for value in figure.series[0].values]
    whole = sum(values) or 1.0
    middle = TOP + _RADIUS + _THICK / 2
    place = f'cx="{TOP + _RADIUS + _THICK / 2}" cy="{middle}" r="{_RADIUS}" stroke-width="{_THICK}"'
    before = 0.0
    for at, (name, value) in enumerate(zip(figure.x, values, strict=True)):
        share = 100.0 * value / whole
        said = _said(figure, value)
        told = f"{percent(share)} · {said}" if said else percent(share)
        kind = "p-other" if name in _REST else f"c{at % COLORS}{' pale' * (at >= COLORS)}"
        yield (
            f'<circle {place} pathLength="100" stroke-dasharray="{share:.3f} {100 - share:.3f}" '
            f'stroke-dashoffset="{25 - before:.3f}" class="sector {kind}">'
            f"<title>{escape(str(name))}: {told}</title></circle>"
        )
        before += share
        top = TOP + _ROW * at
        yield bar(_LEFT, top + 3, 11, 11, kind)
        label = figure.labels[at] if figure.labels else str(name)
        yield text(_LEFT + 18, top + 13, _named(label, str(name)), "tick")
        yield text(WIDTH - RIGHT, top + 13, told, "tick end")


def _named(label: str, name: str) -> str:
    fitted = short(label, 38)
    return fitted if label == name or "<title>" in fitted else f"{fitted}<title>{escape(name)}</title>"


def _said(figure: Figure, value: float) -> str:
    unit = figure.y_axis.unit
    if unit == "%":
        return ""
    return milliseconds(1000 * value) if unit == "s" else f"{number(value)} {unit}".strip()
