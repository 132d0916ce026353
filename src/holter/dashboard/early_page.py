"""The first page of a long job, from its documents, while its tables are still being read."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from holter.drawing.markup import html, tag
from holter.pages.job.overview import insights
from holter.pages.text import sections
from holter.views.jobs import RUNNING, said, summary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from markupsafe import Markup

    from holter.store.documents import Document
    from holter.store.job import JobFolder


def document(folder: JobFolder) -> Document:
    """Return the part of a job's description that needs no table."""
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


def page(description: Document, asked: Mapping[str, str]) -> Markup:
    """Draw the page; it is the same for every page of the job."""
    headline = sections.bullets([description["job"]["headline"]]) if description["job"]["headline"] else ""
    return html(
        sections.head(description),
        tag(
            "p",
            "This is a long job. Its tables are being read; the page updates itself in a moment.",
            role="status",
        ),
        tag("noscript", tag("p", "Without JavaScript, load the page again then.")),
        headline,
        tag("h2", "Insights"),
        insights(description, description["job"]["name"], asked),
    )
