"""What is around every page: head, navigation, the line that says how fresh it is."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from starlette.responses import HTMLResponse

from holter.pages import assets
from holter.pages.alone import ALONE
from holter.report.html import style

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KEPT = ("from", "to", "axis")
"""Parameters that stay as one goes from page to page: where one looks."""
_BARE = (
    "The charts are pictures: the dashboard's third-party files are missing. In a checkout, "
    "<code>python hatch_build.py</code> fetches them from the npm registry; an installed wheel has them."
)


def framed(
    title: str,
    inside: str,
    *,
    data: Mapping[str, object] | None = None,
    navigation: str = "",
    code: int = 200,
) -> HTMLResponse:
    """Wrap a page.

    Args:
        title: What the window is called.
        inside: The page's HTML.
        data: What its scripts know: `events` names what they listen to, None when nothing changes it.
        navigation: The job's pages.
        code: The HTTP status.
    """
    bare = not assets.complete()
    known = {"bare": "yes", **(data or {})} if bare else data or {}
    told = "".join(f' data-{key}="{escape(str(value), quote=True)}"' for key, value in known.items())
    notice = f'<p class="notice">{_BARE}</p>' if bare else ""
    at = assets.address()
    vendor = "" if bare else f'<link rel="stylesheet" href="{at}vendor/uPlot.css">'
    return HTMLResponse(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)} · holter</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<script src="{at}theme.js"></script>{style()}{vendor}<link rel="stylesheet" href="{at}pages.css">'
        f'<link rel="stylesheet" href="{at}tables.css">'
        f'<link rel="stylesheet" href="{at}canvas.css">'
        f'<link rel="icon" href="data:,"><script type="module" src="{at}start.js"></script></head>'
        '<body><a class="skip" href="#main">to the content</a>'
        f'<header><nav aria-label="pages"><a class="home" href="/">holter</a>{navigation}</nav>'
        '<span id="state" role="status"></span><span id="commands"></span></header>'
        f'{notice}<main id="main" tabindex="-1"{told}>{inside}</main></body></html>',
        code,
    )


def job_address(job: str, store: int, page: str = "overview", asked: Mapping[str, str] | None = None) -> str:
    """Return the address of a job's page, looking where the one that asks looks."""
    kept = {key: asked[key] for key in KEPT if asked and asked.get(key)}
    if ALONE.get():
        return f"#{page}{'?' if kept else ''}{urlencode(kept)}"
    below = "" if page == "overview" else f"/{page.replace('_', '-')}"
    return f"/jobs/{quote(job)}{below}?{urlencode({'store': store, **kept})}"


def navigation(
    job: str, store: int, pages: Sequence[tuple[str, str]], shown: str, asked: Mapping[str, str]
) -> str:
    """Return the links to a job's pages, `pages` being names and titles; `shown` is the one that is open."""
    links = "".join(
        f'<a href="{escape(job_address(job, store, name, asked), quote=True)}" data-page="{name}"'
        f"{' aria-current=page' if name == shown else ''}>{escape(title)}</a>"
        for name, title in pages
    )
    return f'<span class="job" title="{escape(job, quote=True)}">{escape(job)}</span>{links}'
