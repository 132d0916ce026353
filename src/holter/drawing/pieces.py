"""Pieces of drawings: texts, bars, pictures, colors and the room that they stand in."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from holter.schema.phases import BREAKDOWN

if TYPE_CHECKING:
    from holter.views.figure import Series

WIDTH, HEIGHT = 580, 240
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 8, 40
COLORS = 8
_LABEL = 22
"""Letters that a label beside a row has room for."""


def color(series: Series, at: int) -> str:
    """Return the class of a series' color: that of its part of a step, or the next of the palette."""
    return f"p-{series.key}" if series.key in BREAKDOWN else f"c{at % COLORS}"


def text(x: float, y: float, text: str, kind: str) -> str:
    """A text at a place; `text` is markup already."""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{text}</text>'


def bar(x: float, y: float, width: float, height: float, kind: str) -> str:
    """Return a rectangle that is filled."""
    size = f'width="{max(width, 0.5):.1f}" height="{height:.1f}"'
    return f'<rect x="{x:.1f}" y="{y:.1f}" {size} class="bar {kind}"/>'


def picture(x: float, width: float, height: float, data: str) -> str:
    """Return a picture from the top of the drawing on."""
    place = f'x="{x}" y="{TOP}" width="{width}" height="{height}"'
    return f'<image {place} preserveAspectRatio="none" class="cells" href="{data}"/>'


def prose(text: str) -> str:
    """Return a sentence as markup: what stands in backticks is code."""
    parts = escape(text).split("`")
    if len(parts) % 2 == 0:  # one of them is no pair
        return escape(text)
    return "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))


def short(text: str, room: int = _LABEL) -> str:
    """Fit a name in its place; its end tells more than its middle. The whole is in a tooltip."""
    kept = text if len(text) <= room else f"{text[: room // 2 - 1]}…{text[-(room - room // 2) :]}"
    return f"{escape(kept)}<title>{escape(text)}</title>" if kept != text else escape(text)
