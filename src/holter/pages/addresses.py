"""Addresses of the pages of a job, and the links between them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from holter.drawing.markup import html, tag

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from markupsafe import Markup

KEPT = ("from", "to", "axis")
"""Parameters that links to other pages keep: the part of the job that is shown."""


def job_address(job: str, store: int, page: str = "overview", asked: Mapping[str, str] | None = None) -> str:
    """Return the address of a job's page, which shows the same part of the job as the page `asked` for."""
    kept = {key: asked[key] for key in KEPT if asked and asked.get(key)}
    below = "" if page == "overview" else f"/{page.replace('_', '-')}"
    return f"/jobs/{quote(job)}{below}?{urlencode({'store': store, **kept})}"


def navigation(
    job: str, store: int, pages: Sequence[tuple[str, str]], shown: str, asked: Mapping[str, str]
) -> Markup:
    """Return the links to a job's pages, `pages` being names and titles; `shown` is the one that is open."""
    links = [
        tag(
            "a",
            title,
            href=job_address(job, store, name, asked),
            data_page=name,
            aria_current="page" if name == shown else None,
        )
        for name, title in pages
    ]
    return html(tag("span", job, class_="job", title=job), *links)
