"""Writes the pages of a job into one HTML file that works without a server."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from holter.drawing.figure import figure
from holter.drawing.markup import html, tag
from holter.drawing.pieces import prose
from holter.pages import assets
from holter.pages.file.answers import answers
from holter.pages.file.frame import framed
from holter.pages.islands import Rendering, island
from holter.pages.job import pages
from holter.pages.text.report import body
from holter.pages.timelines import TIMELINES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markupsafe import Markup

    from holter.views.figure import Figure
    from holter.views.reading import Reading

__all__ = ["page"]

_STANDALONE = Rendering(standalone=True)
POINTS = 1500
"""Points along the x axis of a chart: more than a picture shows, so that a reader can zoom in."""
_ELSEWHERE = ("overview", "insights", "settings")
"""Pages that the report replaces or that need a server."""
_LONG = "The timeline of so many events is not in this file; `holter ui` shows it, down to single events."


def page(reading: Reading) -> Markup:
    """Return the report of a job, running or finished, as HTML that needs no other file."""
    fine = replace(reading.at(None, POINTS), kept={})
    sheets = dict(_sheets(fine))
    live = assets.complete()
    given = answers(fine, html(*(inside for _, inside in sheets.values()))) if live else {}
    return framed(fine, sheets, given, live=live)


def _sheets(reading: Reading) -> Iterator[tuple[str, tuple[str, Markup]]]:
    """Yield each page's name, title and contents."""
    yield ("report", ("Report", html(*body(reading, _live))))
    for name, made in pages().items():
        if name in _ELSEWHERE:
            continue
        if name == "timeline" and not TIMELINES.quick(reading.trial.folder):
            yield name, (made.TITLE, html(tag("h1", made.TITLE), tag("p", prose(_LONG), class_="empty")))
        else:
            yield name, (made.TITLE, made.draw(reading, {"store": "0"}, _STANDALONE))


def _live(name: str, drawn: Figure) -> Markup:
    return island(_STANDALONE, "figure", lambda: figure(drawn), figure=name)
