"""Addresses of the pages of a job, and the links between them."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from holter.pages.alone import ALONE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KEPT = ("from", "to", "axis")
"""Parameters that stay from page to page: the part of the job that is shown."""


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
