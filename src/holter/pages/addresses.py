"""Addresses of the pages of a job, and links to them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.pages.islands import Rendering
    from holter.views.reading import Reading

KEPT = ("from", "to", "axis", "rank", "baseline")
"""Parameters that links to other pages keep: the part of the job that is shown, and its baseline."""


def job_address(job: str, store: int, page: str = "overview", asked: Mapping[str, str] | None = None) -> str:
    """Return the address of a job's page, which shows the same part of the job as the page `asked` for."""
    kept = {key: asked[key] for key in KEPT if asked and asked.get(key)}
    below = "" if page == "overview" else f"/{page.replace('_', '-')}"
    return f"/jobs/{quote(job)}{below}?{urlencode({'store': store, **kept})}"


def to_page(rendering: Rendering, reading: Reading, asked: Mapping[str, str], page: str, **more: str) -> str:
    """Return where a link of a page leads: to another page, or to a section of a report file.

    `more` are parameters of that page; `from_` stands for `from`. In a report file only a window counts.
    """
    given = {name.rstrip("_"): value for name, value in more.items()}
    if rendering.standalone:
        window = urlencode([(name, given[name]) for name in ("from", "to") if name in given])
        return f"#{page}{'?' * bool(window)}{window}"
    there = job_address(reading.trial.folder.name, int(asked.get("store", "0")), page, {**asked, **given})
    own = {name: value for name, value in given.items() if name not in KEPT}
    return there + (f"&{urlencode(own)}" if own else "")
