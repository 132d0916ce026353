"""A chart as HTML: title, legend, picture and note; and the style of pages."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from holter.drawing.pieces import color, short
from holter.drawing.rings import listed as listed_parts
from holter.drawing.svg import svg
from holter.drawing.thin import thin

if TYPE_CHECKING:
    from holter.views.figure import Figure


def figure(of: Figure) -> str:
    """Draw one chart with its title, legend and note."""
    of = thin(of)
    several = of.kind in ("stacked", "stretches") or (of.kind == "lines" and len(of.series) > 1)
    legend = "".join(
        f'<li><i class="{color(series, at)}"></i>{short(series.name, 80)}</li>'
        for at, series in enumerate(of.series)
    )
    note = f'<p class="note">{escape(of.note)}</p>' if of.note else ""
    listed = f'<ul class="legend">{legend}</ul>' if several else ""
    drawn = svg(of)
    if of.kind == "shares":
        drawn = f'<div class="parts">{drawn}{listed_parts(of)}</div>'
    return f"<figure class=holter><h3>{escape(of.title)}</h3>{listed}{drawn}{note}</figure>"


def style(within: str = "") -> str:
    """Return the style of pages; `within` a selector, so that a notebook's own things keep theirs."""
    text = files("holter.drawing").joinpath("page.css").read_text(encoding="utf-8")
    if within:
        text = f"@scope({within}){{{text.replace(':root', ':scope')}}}"
    return f"<style>{text}</style>"
