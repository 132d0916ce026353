"""Draws a chart as HTML: title, legend, picture and note. Returns the style sheet of pages."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np

from holter.drawing.markup import tag, trusted
from holter.drawing.pieces import color, short
from holter.drawing.ring import ring_of
from holter.drawing.svg import svg

if TYPE_CHECKING:
    from markupsafe import Markup

    from holter.views.figure import Figure, Series

MOST = 400
"""Points along the x axis of a picture."""
_STYLES = ("tokens.css", "page.css")
_KINDS = ("lines", "stacked", "heatmap")


def figure(of: Figure) -> Markup:
    """Draw one chart with its title, legend and note."""
    of = thin(of)
    several = of.kind in ("stacked", "stretches") or (of.kind == "lines" and len(of.series) > 1)
    legend = (
        tag("li", tag("i", class_=color(series, at)), short(series.name, 80))
        for at, series in enumerate(of.series)
    )
    note = tag("p", of.note, class_="note") if of.note else ""
    listed = tag("ul", *legend, class_="legend") if several else ""
    drawn = ring_of(of) if of.kind == "shares" else svg(of)
    return tag("figure", tag("h3", of.title), listed, drawn, note, class_="holter")


def style(within: str = "") -> Markup:
    """Return the style of pages; `within` a selector, so that a notebook's own things keep theirs."""
    text = "".join(files("holter.drawing").joinpath(name).read_text(encoding="utf-8") for name in _STYLES)
    if within:
        text = f"@scope({within}){{{text.replace(':root', ':scope')}}}"
    return tag("style", trusted(text))


def thin(of: Figure) -> Figure:
    """Put neighboring points together where a chart has too many: their mean, and all of their bands."""
    every = -(-len(of.x) // MOST)
    if every < 2 or of.kind not in _KINDS or not all(isinstance(one, int | float) for one in of.x):
        return of
    note = f"Each point of this picture stands for up to {every} of the data."
    return replace(
        of,
        x=[value for value in _put(of.x, every, "mean") if value is not None],
        series=[_thinned(series, every, banded=of.kind == "lines") for series in of.series],
        note=f"{of.note} {note}".strip(),
    )


def _thinned(of: Series, every: int, *, banded: bool) -> Series:
    low, high = (of.low or of.values, of.high or of.values) if banded else (None, None)
    low, high = low and _put(low, every, "min"), high and _put(high, every, "max")
    return replace(of, values=_put(of.values, every, "mean"), low=low, high=high)


def _put(values: list[float | None], every: int, how: str) -> list[float | None]:
    known = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    rows = np.append(known, np.full(-len(known) % every, np.nan)).reshape(-1, every)
    there = ~np.isnan(rows)
    if how == "mean":
        found = np.where(there, rows, 0.0).sum(axis=1) / np.maximum(there.sum(axis=1), 1)
    else:
        found = (np.fmin if how == "min" else np.fmax).reduce(rows, axis=1)
    return [float(one) if some else None for one, some in zip(found, there.any(axis=1), strict=True)]
