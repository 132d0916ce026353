"""The list of jobs: searched, sorted by age, some of them marked to be compared."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from holter.dashboard.answers import MOST_OFFSET, RefusalError, whole
from holter.dashboard.job_list import UNREAD
from holter.pages.addresses import job_address
from holter.views.jobs import RUNNING, ended_sick, said
from holter.views.wording import duration

if TYPE_CHECKING:
    from collections.abc import Mapping

ASKED = ("name", "status", "since", "until", "page")
_A_PAGE = 100


def chosen_jobs(listed: list[dict[str, Any]], asked: Mapping[str, str]) -> list[dict[str, Any]]:
    """Keep the jobs that an address asks for.

    Args:
        listed: The jobs.
        asked: `name`, a text in it; `status`; `since` and `until`, the first and the last day of creation in
            this machine's time, as `2026-01-31`.

    Raises:
        RefusalError: A day is none.
    """
    name, status = asked.get("name", "").lower(), asked.get("status", "").lower()
    first, last = _day(asked, "since"), _day(asked, "until", timedelta(days=1))
    return [
        job
        for job in listed
        if name in job["name"].lower()
        and (not status or job["status"].lower() == status)
        # When a damaged job was created nobody knows.
        and (first is None or (job["created"] is not None and job["created"] >= first))
        and (last is None or (job["created"] is not None and job["created"] < last))
    ]


def _day(asked: Mapping[str, str], which: str, more: timedelta = timedelta(0)) -> float | None:
    """Return when a day begins, and `more` time after that, ns since the epoch; None where none is given."""
    text = asked.get(which, "")
    try:
        day = datetime.strptime(text, "%Y-%m-%d").astimezone() if text else None
        return None if day is None else (day + more).timestamp() * 1e9
    except (ValueError, OverflowError, OSError):
        raise RefusalError(f"{which} is {text[:40]!r}; a day is expected, as 2026-01-31") from None


def page(listed: list[dict[str, Any]], wrong: list[str], asked: dict[str, str]) -> str:
    """Draw the list: `listed` are all jobs, `wrong` says what could not be listed, `asked` which to show."""
    chosen = chosen_jobs(listed, asked)
    number = whole(asked, "page", 0, MOST_OFFSET, 0)
    shown = chosen[number * _A_PAGE : (number + 1) * _A_PAGE]
    statuses = "".join(
        f"<option{' selected' if status == asked['status'] else ''}>{escape(status)}</option>"
        for status in sorted({job["status"] for job in listed} - {UNREAD})
    )
    form = (
        '<form class="search" action="/"><input name="name" type="search" aria-label="part of a name" '
        f'placeholder="part of a name" value="{escape(asked["name"], quote=True)}">'
        f'<select name="status" aria-label="status"><option value="">any status</option>{statuses}</select>'
        f"{_date(asked, 'since', 'created from')}{_date(asked, 'until', 'to')}"
        "<button>Search</button></form>"
    )
    said_wrong = "".join(f'<p class="headline">{escape(text)}</p>' for text in wrong)
    if not listed:
        empty = "<p>No job yet. Record one:</p><p><code>holter run -- python train.py</code></p>"
        return f"<h1>Jobs</h1>{said_wrong or empty}"
    rows = "".join(map(_row, shown)) or '<tr><td colspan="6">No job is like that.</td></tr>'
    heads = "<th></th><th>job</th><th>created</th><th>status</th><th class=n>duration</th><th>verdict</th>"
    more = _more(len(chosen), number, asked)
    return (
        f'<h1>Jobs</h1>{said_wrong}{form}<form action="/compare"><div class="scroll"><table class="jobs">'
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>{more}"
        "<button>Compare the marked</button></form>"
    )


def _date(asked: dict[str, str], name: str, label: str) -> str:
    value = escape(asked.get(name, ""), quote=True)
    return f'<label>{label} <input type="date" name="{name}" value="{value}"></label>'


def _said(job: dict[str, Any]) -> str:
    """Say what the job's card led with; of a verdict the sentence, which has the numbers."""
    verdict = job["verdict"]
    if not (job["fault"] or job["silent_s"]) and isinstance(verdict, dict) and not verdict.get("headline"):
        return str(verdict.get("sentence") or said(job))
    if job["status"] == "Failed" and not said(job) and job["exit_code"] is not None:
        return f"exit code {job['exit_code']}"
    return said(job)


def mood(job: dict[str, Any]) -> str:
    """Return the class that colors the status of a job."""
    status = job["status"]
    if ended_sick(job):
        return "sick"
    return "running" if status in RUNNING else "failed" if status in ("Failed", "Unreadable") else ""


def _row(job: dict[str, Any]) -> str:
    created = (
        time.strftime("%Y-%m-%d %H:%M", time.localtime(job["created"] / 1e9)) if job["created"] else "unknown"
    )
    name, place = escape(job["name"]), f"{job['store']}/{job['name']}"
    address = job_address(job["name"], job["store"])
    return (
        f'<tr><td><input type="checkbox" name="job" value="{escape(place, quote=True)}" '
        f'aria-label="mark {escape(job["name"], quote=True)}"></td>'
        f'<td><a href="{escape(address, quote=True)}">{name}</a></td><td>{created}</td>'
        f'<td class="{mood(job)}">{escape(job["status"])}</td>'
        f"<td class=n>{duration(job['duration_s'])}</td><td>{escape(_said(job))}</td></tr>"
    )


def _more(count: int, number: int, asked: dict[str, str]) -> str:
    def link(to: int, text: str) -> str:
        return f'<a href="/?{escape(urlencode({**asked, "page": to}), quote=True)}">{text}</a> '

    before = link(number - 1, "newer") if number else ""
    after = link(number + 1, "older") if (number + 1) * _A_PAGE < count else ""
    return f"<p>{before}{after}</p>" if before or after else ""
