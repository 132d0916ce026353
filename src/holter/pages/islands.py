"""Islands: parts of a page that the server draws first and a script brings to life."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from holter.drawing.figure import figure
from holter.drawing.markup import tag
from holter.drawing.pieces import prose
from holter.pages.assets import APP
from holter.views.figures import draw

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from markupsafe import Markup

    from holter.views.document.types import Description
    from holter.views.reading import Reading

_STANDALONE = ("chips", "figure", "flame", "heatmap", "strip", "table", "timeline")
"""Islands whose scripts also run in a report file."""
_FETCHED = ("figure", "heatmap")
"""Islands that load their data from the server."""


@dataclass(frozen=True)
class Rendering:
    """What a page has to know about the browser that shows it."""

    standalone: bool = False
    """The pages are one file without a server: they have no forms, and links lead to its own sections."""
    refreshed: bool = False
    """The browser shows the page already and asks for its new state: its islands draw themselves."""
    baseline: Description | None = field(default=None, repr=False)
    """The description of the job that this one is compared with."""
    later: str = ""
    """Address of the page with all charts drawn; without scripts, the charts of a long job are there only."""


def island(
    rendering: Rendering, name: str, paint: Callable[[], Markup], **data: str | float | None
) -> Markup:
    """Return the place of an island.

    Args:
        rendering: How the page is rendered.
        name: Its module, `app/islands/NAME.js`; without such a module the first paint stays.
        paint: Draws what a reader sees before the script runs, or without JavaScript.
        data: The element's `dataset`, for the script; None is left out.
    """
    more = {f"data_{key}": value for key, value in data.items()}
    if not (APP / "islands" / f"{name}.js").is_file() or (rendering.standalone and name not in _STANDALONE):
        return tag("div", paint(), class_="island", **more)
    later = rendering.later if name in _FETCHED else ""
    inside = None if rendering.refreshed else _later(later) if later else paint()
    return tag("div", inside, class_="island", data_island=name, **more)


def _later(address: str) -> Markup:
    link = tag("a", "Show the charts without JavaScript", href=address)
    return tag("div", tag("noscript", link), class_="later")


def chart(
    rendering: Rendering,
    reading: Reading,
    name: str,
    options: Mapping[str, int | float | str] | None = None,
    *,
    kind: str = "figure",
    **data: str | float | None,
) -> Markup:
    """Return one chart in an island of some kind, or the reason why the chart is missing."""
    options = options or {}
    query = urlencode(options) or None
    return island(
        rendering,
        kind,
        lambda: drawn(name, reading, **options),
        figure=name,
        options=query,
        ranks=None if "rank" in options else "all",
        **data,
    )


def drawn(name: str, reading: Reading, **options: Any) -> Markup:
    """Return the picture of a chart, or the reason why it is missing."""
    found = draw(name, reading, **options)
    return tag("p", prose(found), class_="note") if isinstance(found, str) else figure(found)
