"""Writes the pages of a job into one HTML file that works without a server."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from holter.drawing.markup import html, tag
from holter.drawing.pieces import prose
from holter.pages import assets
from holter.pages.drawer import drawers
from holter.pages.file.answers import answers
from holter.pages.file.frame import Sheet, framed
from holter.pages.islands import Rendering
from holter.pages.job import pages
from holter.pages.text.report import body
from holter.pages.timelines import TIMELINES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markupsafe import Markup

    from holter.views.reading import Reading

__all__ = ["page"]

_STANDALONE = Rendering(standalone=True)
POINTS = 1500
"""Points along the x axis of a chart: more than a picture shows, so that a reader can zoom in."""
_ELSEWHERE = ("controls",)
"""Pages that need a server."""
_LONG = "The timeline of so many events is not in this file; `holter ui` shows it, down to single events."


def page(reading: Reading) -> Markup:
    """Return the report of a job, running or finished, as HTML that needs no other file."""
    fine = replace(reading.at(None, POINTS), kept={})
    sheets = dict(_sheets(fine))
    live = assets.complete()
    given = answers(fine, html(*(sheet.inside for sheet in sheets.values()))) if live else {}
    return framed(fine, sheets, given, live=live)


def _sheets(reading: Reading) -> Iterator[tuple[str, Sheet]]:
    """Yield each page of the file by name: those of the dashboard, and the whole report as text."""
    for name, made in {**pages(), **drawers()}.items():
        if name in _ELSEWHERE:
            continue
        missing = made.missing(reading) if name in pages() else None
        if name == "timeline" and not TIMELINES.quick(reading.trial.folder):
            inside = html(tag("h1", made.TITLE), tag("p", prose(_LONG), class_="empty"))
        else:
            inside = made.draw(reading, {"store": "0"}, _STANDALONE)
        yield name, Sheet(made.TITLE, inside, missing)
    yield "report", Sheet("Report", html(*body(reading, charts=False)))
