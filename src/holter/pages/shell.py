"""The head of a job's pages: the job and its state, the tabs, the drawers, and the strip of the whole job.

The dashboard and the report file have the same head; scripts add the time window and the commands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from holter.drawing.markup import html, tag
from holter.pages.addresses import job_address
from holter.pages.drawer import drawers
from holter.pages.forms import choice
from holter.pages.islands import Rendering, island
from holter.pages.job import pages
from holter.pages.overview.findings import count
from holter.views.document.progress import progress
from holter.views.jobs import RUNNING
from holter.views.wording import duration, rate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from holter.views.document.types import Description
    from holter.views.document.types.rules import RuleResult
    from holter.views.reading import Reading


_MOST_LISTED = 64
"""Beyond this number of ranks, a rank is typed and not chosen from a list."""


@dataclass(frozen=True)
class Tab:
    """A link of the head."""

    name: str
    title: str
    address: str
    missing: str | None = None
    """Without data for the page, how to get it: the tab is dimmed then, and this is its tooltip."""
    drawer: bool = False


def tabs(
    job: str, store: int, asked: Mapping[str, str], reading: Reading | None, rules: Iterable[RuleResult] = ()
) -> list[Tab]:
    """Return the links to the pages and drawers of a job; without a reading, no tab is dimmed."""
    found = [
        Tab(
            name, page.TITLE, job_address(job, store, name, asked), page.missing(reading) if reading else None
        )
        for name, page in pages().items()
    ]
    number = count(rules)
    for name, one in drawers().items():
        title = f"{one.TITLE} ({number})" if name == "findings" and number else one.TITLE
        found.append(Tab(name, title, job_address(job, store, name, asked), drawer=True))
    return found


def header(
    links: Iterable[Tab],
    shown: str,
    *,
    job: str = "",
    state: str = "",
    rank: Markup | None = None,
    home: str | None = "/",
    strip: bool = False,
) -> Markup:
    """Return the head of a page.

    Args:
        links: The pages and drawers of the job; empty on pages of no single job.
        shown: The name of the page that is open.
        job: The name of the job.
        state: The state of the job in words.
        rank: The choice of a rank, of a job with several.
        home: The address of the list of jobs; None in a report file.
        strip: Whether to show the strip of the whole job.
    """
    links = list(links)
    brand = tag("a", "holter", class_="home", href=home) if home else tag("span", "holter", class_="home")
    named = html(
        tag("span", job, class_="job", title=job),
        tag("span", state, id="status", class_="status"),
    )
    tabbed = tag(
        "nav",
        tag("div", *(_link(one, shown) for one in links if not one.drawer), class_="tabs"),
        rank,
        tag("div", *(_link(one, shown) for one in links if one.drawer), class_="drawers"),
        class_="pages",
        aria_label="pages",
    )
    ends = (tag("span", id="state", role="status"), tag("span", id="commands"))
    return tag(
        "header",
        tag("div", brand, named if job else None, *ends, class_="head"),
        tabbed if links else None,
        island(Rendering(), "strip", Markup) if strip else None,
    )


def rank_choice(ranks: Sequence[int], asked: Mapping[str, str]) -> Markup | None:
    """Return the choice of a rank, which holds for all pages; None for a job with one rank."""
    if len(ranks) < 2:
        return None
    kept = (
        tag("input", type="hidden", name=name, value=value)
        for name, value in asked.items()
        if value and name not in ("rank", "paint")
    )
    if len(ranks) > _MOST_LISTED:
        ends = {"min": min(ranks), "max": max(ranks), "placeholder": "all", "value": asked.get("rank", "")}
        field = tag("label", "rank ", tag("input", type="number", name="rank", **ends))
    else:
        options = [("", "all ranks"), *((str(rank), f"rank {rank}") for rank in ranks)]
        field = choice(asked, "rank", "", options, aria_label="rank")
    return tag("form", *kept, field, tag("noscript", tag("button", "Show")), class_="rank")


def _link(one: Tab, shown: str) -> Markup:
    return tag(
        "a",
        one.title,
        href=one.address,
        title=one.missing and one.missing.replace("`", ""),
        class_="dimmed" if one.missing else None,
        data_page=one.name,
        data_drawer=one.name if one.drawer else None,
        aria_current="page" if one.name == shown else None,
    )


def state_text(told: Description, reading: Reading | None = None) -> str:
    """Return the state of a job in words; of a running one also its step, rate and time left."""
    job = told["job"]
    status = job["status"] or "Damaged"
    ran = f" {duration(job['duration_s'])}" if job["duration_s"] else ""
    if status not in RUNNING:
        return f"{status}{ran}"
    said = ["Stopping" if status == "Stopping" else f"Running{ran}"]
    if reading is not None:
        found = progress(reading)
        if found["step"] is not None:
            of = f"/{found['total']:,}" if found["total"] else ""
            said.append(f"step {found['step']:,}{of}")
        if found["per_second"]:
            said.append(f"{rate(found['per_second'])}/s")
        if found["left_s"] is not None:
            said.append(f"{duration(found['left_s'])} left")
    return " · ".join(said)
