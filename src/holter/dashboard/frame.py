"""What is around every page: the head, the navigation, and the line that says how fresh it is."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from starlette.responses import HTMLResponse

from holter.drawing.figure import style
from holter.pages import assets

if TYPE_CHECKING:
    from collections.abc import Mapping

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
