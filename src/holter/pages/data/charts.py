"""Charts as data: what the browser's scripts draw."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from holter.drawing.pieces import color
from holter.drawing.svg import is_histogram

if TYPE_CHECKING:
    from holter.views.figure import Figure


def drawn_by_script(figure: Figure) -> bool:
    """Return whether a script draws this chart; otherwise the browser gets a picture."""
    return figure.kind in ("lines", "stacked") or is_histogram(figure)


def chart_data(figure: Figure) -> dict[str, Any]:
    """Return a chart with the CSS classes of its colors, and no more digits than a screen shows."""
    # Charts have many numbers: only what changes is copied.
    data: dict[str, Any] = {name: getattr(figure, name) for name in figure.__slots__}
    data |= {"x_axis": asdict(figure.x_axis), "y_axis": asdict(figure.y_axis)}
    data["series"] = [
        {
            "name": one.name,
            "key": one.key,
            "color": color(one, at),
            "joined": one.joined,
            **{part: _short(getattr(one, part)) for part in ("values", "low", "high")},
        }
        for at, one in enumerate(figure.series)
    ]
    return data


def _short(values: list[float | None] | None) -> list[float | None] | None:
    return values and [value and float(f"{value:.6g}") for value in values]
