"""The verdict first, then what happened: the page that a job opens with."""

from __future__ import annotations

import time
from html import escape
from typing import TYPE_CHECKING

from holter.analysis.verdict.evidence import counted
from holter.pages.addresses import job_address
from holter.pages.islands import chart, charts, heatmap
from holter.pages.text import overview, sections
from holter.views.document.progress import progress
from holter.views.issues import ordered
from holter.views.jobs import RUNNING, said, summary
from holter.views.wording import issue_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from holter.views.document.types import Description
    from holter.views.issues import IssueGroup
    from holter.views.reading import Reading

TITLE = "Overview"
SHOWN = 10
_MOST = 5


def draw(reading: Reading, asked: Mapping[str, str]) -> str:
    """Draw the page."""
    told, job = reading.description, reading.trial.folder.name
    parts = [
        sections.head(told),
        _silent(reading),
        _unread(told),
        *sections.verdict(told),
        _progress(reading, asked) if told["job"]["status"] in RUNNING else "",
        f'<div class="columns"><section><h2>Insights</h2>{insights(told, job, asked)}</section>'
        f"<section><h2>Phases of the job</h2>{overview.phases(told)}{overview.details(told)}</section></div>",
        f"<h2>Progress over time</h2>{chart(reading, 'phases_over_time')}",
        _steps(reading, told),
        f"<h2>Utilization</h2>{_utilization(reading, told)}",
        f"<h2>Operations that took most time</h2>{overview.operations(told)}",
        f"<h2>Numbers of the training</h2>{charts(reading, 'losses', 'gradient_norm', 'learning_rate')}",
        f'<div class="columns"><section><h2>The job</h2>{sections.job(told)}</section>'
        f"<section><h2>What holter cost</h2>{sections.cost(told)}</section></div>",
    ]
    return "".join(parts)


def _unread(told: Description) -> str:
    """Say what is missing from all that is said below, before it is said."""
    count = len(told["skipped"])
    if not count:
        return ""
    files = f"{counted(count, 'file')} of this job"
    return (
        f'<p class="headline">{files} could not be read; what should stand there is missing below.</p>'
        f"<details><summary>Files that could not be read, and why</summary>{sections.skipped(told)}</details>"
    )


def _utilization(reading: Reading, told: Description) -> str:
    """Draw how busy the machines were; where nobody looked at them, one sentence says so."""
    if not told["utilization"]:
        return chart(reading, "utilization")
    return f"{overview.summary(told)}{charts(reading, 'utilization', 'gpu_boxes')}{heatmap(reading)}"


def _silent(reading: Reading) -> str:
    """Say that nobody knows any more how a job that should run is doing."""
    line = summary(reading.trial.folder, time.time_ns())
    return (
        f'<p class="headline">Perhaps it runs no more: {escape(said(line))}.</p>' if line["silent_s"] else ""
    )


def _progress(reading: Reading, asked: Mapping[str, str]) -> str:
    total = asked.get("total_steps", "")
    known = int(total) if total.isdigit() and 0 < int(total) < 2**53 else None
    kept = "".join(
        f'<input type="hidden" name="{name}" value="{escape(asked[name], quote=True)}">'
        for name in ("store", "from", "to", "axis")
        if asked.get(name)
    )
    form = (
        f'<form class="search">{kept}<label>of <input type="number" name="total_steps" min="1" '
        f'value="{known or ""}" placeholder="?" aria-label="steps the job will take"> steps</label>'
        "<button>When will it be done?</button></form>"
    )
    return f"<h2>Progress</h2>{overview.progress(progress(reading, known))}{form}"


def insights(told: Mapping[str, Any], job: str, asked: Mapping[str, str]) -> str:
    """Draw the gravest findings, and the way to all of them."""
    found = ordered(told["rules"])
    if not found:
        return sections.issues(told)
    listed = "".join(
        f'<li class="issue {"" if one.over else one.severity}"><span class="severity">{one.severity}</span> '
        f"{escape(issue_text(one))}{_symptoms(one)}</li>"
        for one in found[:_MOST]
    )
    address = escape(job_address(job, int(asked.get("store", "0")), "insights", asked), quote=True)
    return (
        f'<ul class="plain">{listed}</ul><p><a href="{address}">All that the rules found, with evidence '
        "and advice</a></p>"
    )


def _symptoms(of: IssueGroup) -> str:
    """Name what follows from a finding."""
    names = dict.fromkeys(one.rule for one in of.symptoms)
    return f'<p class="note">and from it: {escape(", ".join(names))}</p>' if names else ""


def _steps(reading: Reading, told: Description) -> str:
    if not told["steps"]:
        return f"<h2>Steps</h2>{sections.steps(told)}"
    split = f"<h2>Where a step's time goes</h2>{sections.breakdown(told)}" if told["breakdown"] else ""
    names = ["step_times", "breakdown_over_steps", "step_histogram"]
    if told["dataloading"]:
        names.append("data_loading")
    return f"{split}<h2>Steps</h2>{sections.steps(told)}{charts(reading, *names)}"
