"""The frame of every page: head, navigation and the status line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup
from starlette.responses import HTMLResponse

from holter.drawing.figure import style
from holter.drawing.markup import html, tag
from holter.pages import assets
from holter.pages.shell import header

if TYPE_CHECKING:
    from collections.abc import Mapping

_BARE = html(
    "The charts are pictures: the dashboard's third-party files are missing. In a checkout, ",
    tag("code", "python hatch_build.py"),
    " fetches them from the npm registry; an installed wheel has them.",
)


def framed(
    title: str,
    inside: Markup,
    *,
    data: Mapping[str, object] | None = None,
    head: Markup | None = None,
    code: int = 200,
) -> HTMLResponse:
    """Wrap a page. `data` is for its scripts; its entry `events` is the address of the event stream.

    `head` is the head of a job's page; other pages have a head without tabs.
    """
    bare = not assets.complete()
    known = {"bare": "yes", **(data or {})} if bare else data or {}
    at = assets.address()
    styles = [*([] if bare else ["vendor/uPlot.css"]), "pages.css", "shell.css", "tables.css", "canvas.css"]
    meta = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("title", title, " · holter"),
        tag("meta", name="viewport", content="width=device-width,initial-scale=1"),
        tag("script", src=f"{at}theme.js"),
        style(),
        *(tag("link", rel="stylesheet", href=f"{at}{name}") for name in styles),
        tag("link", rel="icon", href="data:,"),
        tag("script", type="module", src=f"{at}start.js"),
    )
    body = tag(
        "body",
        tag("a", "to the content", class_="skip", href="#main"),
        header([], "") if head is None else head,
        tag("p", _BARE, class_="notice") if bare else None,
        tag("main", inside, id="main", tabindex="-1", **{f"data_{key}": one for key, one in known.items()}),
    )
    ranked = "ranked" if known.get("rank") else None
    return HTMLResponse(Markup("<!doctype html>") + tag("html", meta, body, lang="en", class_=ranked), code)
