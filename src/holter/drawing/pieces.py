"""Parts of drawings: texts, bars, images, colors and margins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.drawing.markup import html, tag
from holter.schema.phases import BREAKDOWN

if TYPE_CHECKING:
    from markupsafe import Markup

    from holter.views.figure import Series

WIDTH, HEIGHT = 580, 240
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 8, 40
COLORS = 8
_LABEL = 22
"""Letters that fit into the label of a row."""


def color(series: Series, at: int) -> str:
    """Return the class of a series' color: that of its part of a step, or the next of the palette."""
    return f"p-{series.key}" if series.key in BREAKDOWN else f"c{at % COLORS}"


def drawing(title: str, width: int, height: int, /, *inside: object, **attributes: object) -> Markup:
    """Return an SVG image with its accessible name."""
    return tag(
        "svg",
        tag("title", title),
        *inside,
        viewBox=f"0 0 {width} {height}",
        role="img",
        aria_label=title,
        **attributes,
    )


def text(x: float, y: float, text: str, kind: str) -> Markup:
    """Return a text at a place."""
    return tag("text", text, x=f"{x:.1f}", y=f"{y:.1f}", class_=kind)


def bar(x: float, y: float, width: float, height: float, kind: str) -> Markup:
    """Return a rectangle that is filled."""
    size = {"width": f"{max(width, 0.5):.1f}", "height": f"{height:.1f}"}
    return tag("rect", x=f"{x:.1f}", y=f"{y:.1f}", **size, class_=f"bar {kind}")


def picture(x: float, width: float, height: float, data: str) -> Markup:
    """Return a picture from the top of the drawing on."""
    place = {"x": x, "y": TOP, "width": width, "height": height}
    return tag("image", **place, preserveAspectRatio="none", class_="cells", href=data)


def prose(text: str) -> Markup:
    """Return a sentence as markup; text in backticks becomes code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # one of them is no pair
        return html(text)
    return html(*(tag("code", part) if at % 2 else part for at, part in enumerate(parts)))


def short(text: str, most: int = _LABEL) -> Markup:
    """Shorten a name in its middle; the tooltip has the whole name."""
    kept = text if len(text) <= most else f"{text[: most // 2 - 1]}…{text[-(most - most // 2) :]}"
    return html(kept, tag("title", text)) if kept != text else html(text)
