"""Texts about an occasion: a subject, a message, a line for a telephone, and a document for programs."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holter.actions import Occasion
    from holter.store.documents import Document

SMS_LENGTH = 160
_PLACES = ("node", "rank", "device", "tensor")


def subject(occasion: Occasion) -> str:
    """Return one line with severity, rule and job."""
    return _line(f"holter: {occasion.issue['severity']}: {occasion.rule} in job {occasion.folder.name}")


def short(occasion: Occasion, length: int = SMS_LENGTH) -> str:
    """Return one line of at most `length` characters."""
    text = _line(f"{occasion.folder.name}: {occasion.rule}: {occasion.issue['summary']}")
    return text if len(text) <= length else text[: length - 1] + "…"


def text(occasion: Occasion) -> str:
    """Return the whole finding, one fact per line."""
    issue, folder = occasion.issue, occasion.folder
    places = [f"{name} {issue[name]}" for name in _PLACES if issue.get(name) is not None]
    lines = [f"{occasion.rule} ({issue['severity']}): {issue['summary']}"]
    if places:
        lines.append(f"where: {', '.join(places)}")
    if (steps := span(occasion)) is not None:
        lines.append(f"when: {steps}")
    if issue.get("advice"):
        lines.append(f"advice: {issue['advice']}")
    lines.append(f"job: {folder.name} in {os.path.dirname(folder.url) or '.'}")
    lines.append(f"more: holter describe {folder.name}")
    return "\n".join(lines)


def span(occasion: Occasion) -> str | None:
    """Return the steps of the issue: `step 7`, `steps 7 to 9`."""
    first, last = occasion.issue.get("step_start"), occasion.issue.get("step_end")
    first, last = first if first is not None else last, last if last is not None else first
    if first is None:
        return None
    return f"step {first}" if first == last else f"steps {first} to {last}"


def document(occasion: Occasion) -> Document:
    """Return the finding for programs: job, rule, issue, and the status of every rule."""
    return {
        "job": occasion.folder.name,
        "url": occasion.folder.url,
        "rule": occasion.rule,
        "severity": occasion.issue["severity"],
        "summary": occasion.issue["summary"],
        "issue": dict(occasion.issue),
        "statuses": dict(occasion.statuses),
        "time": moment(occasion.time),
    }


def moment(time_ns: int) -> str:
    """Return a time in RFC 3339 format, in UTC."""
    return datetime.fromtimestamp(time_ns / 1e9, timezone.utc).isoformat(timespec="milliseconds")


def _line(text: str) -> str:
    """Return a text as one line: a line break would end a mail's header."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
