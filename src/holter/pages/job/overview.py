"""The overview page: the verdict first, then progress, steps and utilization."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from markupsafe import Markup

from holter.analysis.verdict.evidence import counted
from holter.drawing.markup import html, tag
from holter.pages.addresses import job_address
from holter.pages.islands import chart, charts
from holter.pages.job._forms import entry, form
from holter.pages.text import overview, sections
from holter.views.document.progress import progress
from holter.views.issues import ordered
from holter.views.jobs import RUNNING, said, summary
from holter.views.wording import issue_text, severity_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holter.pages.islands import Rendering
    from holter.views.document.types import Description
    from holter.views.document.types.job import SkippedFile
    from holter.views.document.types.rules import RuleResult
    from holter.views.issues import IssueGroup
    from holter.views.reading import Reading

TITLE = "Overview"
SHOWN = 10
_MOST = 5


def draw(reading: Reading, asked: Mapping[str, str], rendering: Rendering) -> Markup:
    """Draw the page."""
    told, job = reading.description, reading.trial.folder.name
    parts = [
        sections.head(told["job"]),
        _silent(reading),
        _unread(told["skipped"]),
        sections.verdict(told),
        _progress(rendering, reading, asked) if told["job"]["status"] in RUNNING else "",
        tag(
            "div",
            tag("section", tag("h2", "Insights"), insights(told["rules"], job, asked)),
            tag("section", tag("h2", "Phases of the job"), overview.phases(told), overview.details(told)),
            class_="columns",
        ),
        html(tag("h2", "Progress over time"), chart(rendering, reading, "phases_over_time")),
        _steps(rendering, reading, told),
        html(tag("h2", "Utilization"), _utilization(rendering, reading, told)),
        html(tag("h2", "Operations that took most time"), overview.operations(told)),
        html(
            tag("h2", "Training metrics"),
            charts(rendering, reading, "losses", "gradient_norm", "learning_rate"),
        ),
        tag(
            "div",
            tag("section", tag("h2", "The job"), sections.job(told)),
            tag("section", tag("h2", "Overhead"), sections.cost(told["cost"])),
            class_="columns",
        ),
    ]
    return html(*parts)


def _unread(files: Sequence[SkippedFile]) -> Markup:
    """Warn that files could not be read."""
    if not files:
        return Markup()
    text = f"{counted(len(files), 'file')} of this job could not be read; their data is missing below."
    return html(
        tag("p", text, class_="headline"),
        tag("details", tag("summary", "Files that could not be read, and why"), sections.skipped(files)),
    )


def _utilization(rendering: Rendering, reading: Reading, told: Description) -> Markup:
    """Draw the utilization of the machines; without samples, one sentence says so."""
    if not told["utilization"]:
        return chart(rendering, reading, "utilization")
    return html(
        overview.summary(told),
        charts(rendering, reading, "utilization", "gpu_boxes"),
        chart(rendering, reading, "devices", kind="heatmap"),
    )


def _silent(reading: Reading) -> Markup:
    """Warn that a running job has been silent."""
    line = summary(reading.trial.folder, time.time_ns())
    return (
        tag("p", "It may have stopped: ", said(line), ".", class_="headline")
        if line["silent_s"]
        else Markup()
    )


def _progress(rendering: Rendering, reading: Reading, asked: Mapping[str, str]) -> Markup:
    total = asked.get("total_steps", "")
    known = int(total) if total.isdigit() and 0 < int(total) < 2**53 else None
    more = {"min": 1, "placeholder": "?", "aria_label": "steps the job will take"}
    field = entry({}, "total_steps", "of", kind="number", default=str(known or ""), **more)
    typed = form(rendering, asked, "steps of the job", field, " steps ", button="Estimate the end")
    return html(tag("h2", "Progress"), overview.progress(progress(reading, known)), typed)


def insights(rules: Sequence[RuleResult], job: str, asked: Mapping[str, str]) -> Markup:
    """Draw the most severe findings, and a link to all of them."""
    found = ordered(rules)
    if not found:
        return sections.issues(rules, job)
    listed = [
        tag(
            "li",
            tag("span", severity_text(one.severity), class_="severity"),
            " ",
            issue_text(one),
            _symptoms(one),
            class_=f"issue {'' if one.over else one.severity}",
        )
        for one in found[:_MOST]
    ]
    address = job_address(job, int(asked.get("store", "0")), "insights", asked)
    return html(
        tag("ul", *listed, class_="plain"),
        tag("p", tag("a", "All findings, with evidence and advice", href=address)),
    )


def _symptoms(of: IssueGroup) -> Markup:
    """Name the related findings."""
    names = dict.fromkeys(one.rule for one in of.symptoms)
    return tag("p", "Related: ", ", ".join(names), class_="note") if names else Markup()


def _steps(rendering: Rendering, reading: Reading, told: Description) -> Markup:
    if not told["steps"]:
        return overview.program(told["program"]) or html(tag("h2", "Steps"), sections.steps(told["steps"]))
    split = None
    if shares := told["breakdown"]:
        drawn = sections.breakdown(shares, told["not_seen"], told["dataloading"])
        split = html(
            sections.ledger(told["ledger"]),
            tag("h2", "Where a step's time goes"),
            drawn,
            sections.gpu_times(told["gpu_times"]),
            sections.named_work(told["named_work"]),
            sections.own_code(told["own_code"]),
        )
    names = ["step_times", "breakdown_over_steps", "step_histogram"]
    if told["dataloading"]:
        names.append("data_loading")
    return html(
        split,
        tag("h2", "Steps"),
        sections.steps(told["steps"]),
        sections.changes(told["changes"]),
        charts(rendering, reading, *names),
    )
