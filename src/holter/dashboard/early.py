"""What is shown of a long job at once, while all of it is read: what its documents say."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from holter.drawing.markup import html, tag
from holter.pages.job.overview import insights
from holter.pages.text import sections
from holter.views.jobs import RUNNING, said, summary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from markupsafe import Markup

    from holter.store.job import JobFolder


def document(folder: JobFolder) -> dict[str, Any]:
    """Return of a job's description what is known without reading its tables."""
    manifest, now = folder.manifest(), time.time_ns()
    listed = summary(folder, now)
    status = manifest.get("status")
    job = {
        "name": folder.name,
        "status": status,
        "start": manifest.get("start"),
        "duration_s": listed["duration_s"],
        "command": manifest.get("command") or [],
    }
    headline = said({**listed, "silent_s": None if status not in RUNNING else listed["silent_s"]})
    return {"job": {**job, "headline": headline}, "rules": folder.evaluations().get("rules") or []}


def page(told: Mapping[str, Any], asked: Mapping[str, str]) -> Markup:
    """Draw it, whichever of the job's pages was asked for."""
    headline = sections.bullets([told["job"]["headline"]]) if told["job"]["headline"] else ""
    return html(
        sections.head(told),
        tag(
            "p",
            "This is a long job: its tables are being read, and the page fills itself in a moment.",
            role="status",
        ),
        tag("noscript", tag("p", "Without scripts, load it again then.")),
        headline,
        tag("h2", "Insights"),
        insights(told, told["job"]["name"], asked),
    )
