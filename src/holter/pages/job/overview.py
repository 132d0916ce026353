"""The overview page: the headline, its numbers, one step as a bar, findings, and two charts."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from markupsafe import Markup

from holter.analysis.verdict.evidence import counted
from holter.drawing.markup import html, tag
from holter.pages.addresses import to_page
from holter.pages.forms import entry, form, picture
from holter.pages.islands import chart
from holter.pages.layout import ALL_RANKS, bare, card, grid
from holter.pages.overview.findings import findings
from holter.pages.overview.hero import hero
from holter.pages.overview.ledger import ledger
from holter.pages.overview.tiles import tiles
from holter.pages.performance.slow_steps import slowest_step
from holter.pages.text import overview, sections
from holter.views.document.progress import progress
from holter.views.jobs import RUNNING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holter.pages.islands import Rendering
    from holter.views.document.types.job import JobSummary, SkippedFile
    from holter.views.reading import Reading

TITLE = "Overview"
SHOWN = 10


def missing(_reading: Reading) -> str | None:
    """Every job has an overview."""
    return None


def draw(reading: Reading, asked: Mapping[str, str], rendering: Rendering) -> Markup:
    """Draw the page."""
    told, job = reading.description, reading.trial.folder.name
    running, traced = told["job"]["status"] in RUNNING, "trace" in told
    sampled = any(row["metric"] in ("cpu.util", "gpu.util") for row in told["utilization"])
    all_found = to_page(rendering, reading, asked, "findings")
    return html(
        _head(told["job"], imported=traced),
        _unread(told["skipped"]),
        hero(reading),
        tiles(reading, rendering),
        _progress(rendering, reading, asked) if running else None,
        grid(
            ledger(reading, asked, rendering),
            bare(overview.program(told["program"]), columns=12, whole=True),
            card(
                "Findings",
                slowest_step(rendering, reading, asked),
                findings(told["rules"], job, all_found),
                columns=12 if traced else 6,
                whole=True,
            ),
            # A trace begins with its first event: it has no start-up.
            None if traced else card("Phases of the job", overview.phases(told), whole=True),
            bare(picture(rendering, reading, "step_times", asked), columns=6 if sampled else 12)
            if told["steps"]
            else None,
            bare(chart(rendering, reading, "utilization")) if sampled else None,
        ),
    )


def _head(job: JobSummary, *, imported: bool) -> Markup:
    """Return the name of the job, when it began, and its command in one line."""
    command = shlex.join(map(str, job["command"]))
    began = f"began {sections.clock(job['start'])} " if job["start"] and not imported else ""
    return tag(
        "div",
        tag("h1", job["name"]),
        tag("span", began, tag("code", command, title=command), class_="dim"),
        class_="job-head",
    )


def _unread(files: Sequence[SkippedFile]) -> Markup:
    """Warn that files could not be read."""
    if not files:
        return Markup()
    text = f"{counted(len(files), 'file')} of this job could not be read; their data is missing below."
    return html(
        tag("p", text, class_="headline"),
        tag("details", tag("summary", "Files that could not be read, and why"), sections.skipped(files)),
    )


def _progress(rendering: Rendering, reading: Reading, asked: Mapping[str, str]) -> Markup:
    total = asked.get("total_steps", "")
    known = int(total) if total.isdigit() and 0 < int(total) < 2**53 else None
    found = progress(reading, known)
    more = {"min": 1, "placeholder": str(found["total"] or "?"), "aria_label": "steps the job will take"}
    field = entry({}, "total_steps", "of", kind="number", default=str(known or ""), **more)
    typed = form(rendering, asked, "steps of the job", field, " steps ", button="Estimate the end")
    return tag("section", overview.progress(found), ALL_RANKS, typed, class_="progress")
