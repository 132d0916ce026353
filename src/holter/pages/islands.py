"""Parts of a page that become live: what the server draws first, and what the browser makes of it."""

from __future__ import annotations

from contextvars import ContextVar
from html import escape
from typing import TYPE_CHECKING

from holter.drawing.figure import figure
from holter.drawing.pieces import prose
from holter.pages.alone import ALONE
from holter.pages.assets import APP
from holter.views.figures import draw

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.views.reading import Reading

_ALONE = ("chips", "figure", "flame", "heatmap", "table", "timeline")
"""Islands that live in a file too."""
REFRESHED: ContextVar[bool] = ContextVar("refreshed", default=False)
"""Whether the page is only brought up to date: islands live on their own, nobody looks at a first paint."""
LATER: ContextVar[str] = ContextVar("later", default="")
"""Of a long job, whose text waits for no picture: the address that draws them without scripts."""

_FETCHED = ("figure", "heatmap")
"""Islands that ask for all they show."""


def island(name: str, paint: Callable[[], str], **data: str | float | None) -> str:
    """Return the place of an island.

    Args:
        name: Its module, `app/islands/NAME.js`; where there is none, what is painted stays.
        paint: Draws what is seen before its script runs, or when it never does.
        data: What the script finds in the element's `dataset`; None is left out.
    """
    more = "".join(
        f' data-{key.replace("_", "-")}="{escape(str(value), quote=True)}"'
        for key, value in data.items()
        if value is not None
    )
    if not (APP / "islands" / f"{name}.js").is_file() or (ALONE.get() and name not in _ALONE):
        return f'<div class="island"{more}>{paint()}</div>'
    later = LATER.get() if name in _FETCHED else ""
    inside = "" if REFRESHED.get() else _later(later) if later else paint()
    return f'<div class="island" data-island="{name}"{more}>{inside}</div>'


def _later(address: str) -> str:
    link = f'<a href="{escape(address, quote=True)}">Draw the charts without scripts</a>'
    return f'<div class="later"><noscript>{link}</noscript></div>'


def chart(reading: Reading, name: str, **data: str | float | None) -> str:
    """Return one chart; where there is nothing to draw, why not."""
    return island("figure", lambda: _drawn(name, reading), figure=name, **data)


def heatmap(reading: Reading, **data: str | float | None) -> str:
    """Return how busy each device was."""
    return island("heatmap", lambda: _drawn("devices", reading), figure="devices", **data)


def _drawn(name: str, reading: Reading) -> str:
    drawn = draw(name, reading)
    return f'<p class="note">{prose(drawn)}</p>' if isinstance(drawn, str) else figure(drawn)


def charts(reading: Reading, *names: str) -> str:
    """Return several charts side by side."""
    return f'<div class="charts">{"".join(chart(reading, name) for name in names)}</div>'
