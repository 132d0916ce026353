"""Draws a flame graph as SVG, callers above callees, for readers without JavaScript and for print."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from holter.drawing.markup import tag
from holter.drawing.pieces import drawing
from holter.views.wording import milliseconds, percent, plain_function

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markupsafe import Markup

    from holter.views.flames import FlameTree

WIDTH, ROW = 1160, 18
DEEPEST = 40
"""Levels that are drawn; the page's script shows the others."""
_LETTER = 6.4
"""Width of a letter, about."""
_LEAST = 1.0
"""Narrower bars are not drawn."""


def flame(tree: FlameTree, title: str) -> Markup:
    """Draw a tree of functions and their times."""
    bars = list(_bars(tree, tree["value"] or 1))
    height = ROW * (1 + max((row for row, *_ in bars), default=0))
    return drawing(title, WIDTH, height, *(_bar(*bar) for bar in bars), class_="chart flame")


def _bars(tree: FlameTree, whole: float) -> Iterator[tuple[int, float, float, str, str]]:
    waiting = [(tree, 0, 0.0)]
    while waiting:
        node, row, left = waiting.pop()
        width = WIDTH * node["value"] / whole
        text = f"{node['name']}: {milliseconds(node['value'] / 1e6)}, {percent(100 * node['value'] / whole)}"
        yield row, left, width, node["name"], text
        for child in node.get("children", ()) if row + 1 < DEEPEST else ():
            if WIDTH * child["value"] / whole >= _LEAST:
                waiting.append((child, row + 1, left))
            left += WIDTH * child["value"] / whole


def _bar(row: int, left: float, width: float, name: str, tooltip: str) -> Markup:
    letters = int((width - 6) / _LETTER)
    plain = plain_function(name)
    label = plain if len(plain) <= letters else f"{plain[: letters - 1]}…"
    place = {"x": f"{left:.1f}", "y": ROW * row, "width": f"{width:.1f}", "height": ROW - 1}
    return tag(
        "g",
        tag("title", tooltip),
        tag("rect", **place, class_=f"h{hue(name)}"),
        tag("text", label, x=f"{left + 3:.1f}", y=ROW * row + 13) if letters > 2 else "",
    )


def hue(name: str) -> int:
    """Return which of six colors a function has: one for each file, so that a library stands out."""
    return crc32(_place(name).encode()) % 6


def _place(name: str) -> str:
    """Return the file of `qualname (file:line)`; the name itself of what has none."""
    return name.rpartition("(")[2].rpartition(":")[0] if name.endswith(")") and ":" in name else name
