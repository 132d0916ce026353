"""Draws a chart as HTML: title, legend, picture and note. Returns the style sheet of pages."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from holter.drawing.markup import html, tag, trusted
from holter.drawing.pieces import color, short
from holter.drawing.ring import ring_of
from holter.drawing.svg import svg
from holter.drawing.thin import thin

if TYPE_CHECKING:
    from markupsafe import Markup

    from holter.views.figure import Figure


def figure(of: Figure) -> Markup:
    """Draw one chart with its title, legend and note."""
    of = thin(of)
    several = of.kind in ("stacked", "stretches") or (of.kind == "lines" and len(of.series) > 1)
    legend = html(
        *(
            tag("li", tag("i", class_=color(series, at)), short(series.name, 80))
            for at, series in enumerate(of.series)
        )
    )
    note = tag("p", of.note, class_="note") if of.note else ""
    listed = tag("ul", legend, class_="legend") if several else ""
    drawn = ring_of(of) if of.kind == "shares" else svg(of)
    return tag("figure", tag("h3", of.title), listed, drawn, note, class_="holter")


def style(within: str = "") -> Markup:
    """Return the style of pages; `within` a selector, so that a notebook's own things keep theirs."""
    text = files("holter.drawing").joinpath("page.css").read_text(encoding="utf-8")
    if within:
        text = f"@scope({within}){{{text.replace(':root', ':scope')}}}"
    return tag("style", trusted(text))
