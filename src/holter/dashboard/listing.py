"""The list of jobs: searched, sorted by age, some of them marked to be compared."""

from __future__ import annotations

import time
from html import escape
from typing import Any
from urllib.parse import urlencode

from holter.dashboard.frame import job_address
from holter.dashboard.job_list import UNREAD
from holter.views.jobs import RUNNING, said
from holter.views.wording import duration

ASKED = ("name", "status", "page")
_A_PAGE = 100


def chosen_jobs(listed: list[dict[str, Any]], name: str, status: str) -> list[dict[str, Any]]:
    """Keep the jobs whose name holds a text, and that have a status."""
    return [
        job
        for job in listed
        if name.lower() in job["name"].lower() and (not status or job["status"].lower() == status.lower())
    ]


def page(listed: list[dict[str, Any]], wrong: list[str], asked: dict[str, str]) -> str:
    """Draw the list: `listed` are all jobs, `wrong` says what could not be listed, `asked` which to show."""
    chosen = chosen_jobs(listed, asked["name"], asked["status"])
    number = int(asked["page"]) if asked["page"].isdigit() else 0
    shown = chosen[number * _A_PAGE : (number + 1) * _A_PAGE]
    statuses = "".join(
        f"<option{' selected' if status == asked['status'] else ''}>{escape(status)}</option>"
        for status in sorted({job["status"] for job in listed} - {UNREAD})
    )
    form = (
        '<form class="search" action="/"><input name="name" type="search" aria-label="part of a name" '
        f'placeholder="part of a name" value="{escape(asked["name"], quote=True)}">'
        f'<select name="status" aria-label="status"><option value="">any status</option>{statuses}</select>'
        "<button>Search</button></form>"
    )
    said_wrong = "".join(f'<p class="headline">{escape(text)}</p>' for text in wrong)
    if not listed:
        empty = "<p>No job yet. Record one:</p><p><code>holter run -- python train.py</code></p>"
        return f"<h1>Jobs</h1>{said_wrong}{empty}"
    rows = "".join(map(_row, shown)) or '<tr><td colspan="6">No job is like that.</td></tr>'
    heads = "<th></th><th>job</th><th>created</th><th>status</th><th class=n>duration</th><th>verdict</th>"
    more = _more(len(chosen), number, asked)
    return (
        f'<h1>Jobs</h1>{said_wrong}{form}<form action="/compare"><div class="scroll"><table class="jobs">'
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>{more}"
        "<button>Compare the marked</button></form>"
    )


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
        f'<td class="{"running" if job["status"] in RUNNING else ""}">{escape(job["status"])}</td>'
        f"<td class=n>{duration(job['duration_s'])}</td><td>{escape(said(job))}</td></tr>"
    )


def _more(count: int, number: int, asked: dict[str, str]) -> str:
    def link(to: int, text: str) -> str:
        return f'<a href="/?{escape(urlencode({**asked, "page": to}), quote=True)}">{text}</a> '

    before = link(number - 1, "newer") if number else ""
    after = link(number + 1, "older") if (number + 1) * _A_PAGE < count else ""
    return f"<p>{before}{after}</p>" if before or after else ""
