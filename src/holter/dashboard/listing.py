"""The page with the list of jobs: search, pages, and selection for a comparison."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from markupsafe import Markup

from holter.dashboard.answers import MOST_OFFSET, RefusalError, whole
from holter.dashboard.job_list import UNREAD
from holter.drawing.markup import html, tag
from holter.pages.addresses import job_address
from holter.views.jobs import RUNNING, chip, ended_sick, said
from holter.views.wording import duration, milliseconds, status_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.views.jobs import ListedJob

ASKED = ("name", "status", "since", "until", "page")
_A_PAGE = 100
_HEADS = ("", "job", "status", "created", "duration", "step", "verdict")
_CLASSES = {"duration": "n", "step": "n"}


def chosen_jobs(listed: list[ListedJob], asked: Mapping[str, str]) -> list[ListedJob]:
    """Return the jobs that an address asks for; raises `RefusalError` for an invalid day.

    `name` is a part of the name; `since` and `until` are the first and the last day of creation in this
    machine's time, as `2026-01-31`.
    """
    name, status = asked.get("name", "").lower(), asked.get("status", "").lower()
    first, last = _day(asked, "since"), _day(asked, "until", timedelta(days=1))
    return [
        job
        for job in listed
        if name in job["name"].lower()
        and (not status or job["status"].lower() == status)
        # A damaged job has no time of creation.
        and (first is None or (job["created"] is not None and job["created"] >= first))
        and (last is None or (job["created"] is not None and job["created"] < last))
    ]


def _day(asked: Mapping[str, str], which: str, more: timedelta = timedelta(0)) -> float | None:
    """Return when a day begins, and `more` time after that, ns since the epoch; None without a day."""
    text = asked.get(which, "")
    try:
        day = datetime.strptime(text, "%Y-%m-%d").astimezone() if text else None
        return None if day is None else (day + more).timestamp() * 1e9
    except (ValueError, OverflowError, OSError):
        raise RefusalError(f"{which} is {text[:40]!r}; a day is expected, as 2026-01-31") from None


def page(listed: list[ListedJob], wrong: list[str], asked: dict[str, str]) -> Markup:
    """Draw the list: `listed` are all jobs, `wrong` says what could not be listed, `asked` which to show."""
    chosen = chosen_jobs(listed, asked)
    number = whole(asked, "page", 0, MOST_OFFSET, 0)
    shown = chosen[number * _A_PAGE : (number + 1) * _A_PAGE]
    statuses = html(
        *(
            tag("option", status_text(status), value=status, selected=status == asked["status"])
            for status in sorted({job["status"] for job in listed} - {UNREAD})
        )
    )
    form = tag(
        "form",
        tag(
            "input",
            name="name",
            type="search",
            aria_label="part of a name",
            placeholder="part of a name",
            value=asked["name"],
        ),
        tag("select", tag("option", "any status", value=""), statuses, name="status", aria_label="status"),
        _date(asked, "since", "created from"),
        _date(asked, "until", "to"),
        tag("button", "Search"),
        class_="search",
        action="/",
    )
    said_wrong = html(*(tag("p", text, class_="headline") for text in wrong))
    if not listed:
        empty = html(
            tag("p", "No job yet. Record one:"), tag("p", tag("code", "holter run -- python train.py"))
        )
        return html(tag("h1", "Jobs"), said_wrong or empty)
    rows = html(*map(_row, shown)) or tag("tr", tag("td", "No matching jobs.", colspan="7"))
    heads = html(*(tag("th", head, class_=_CLASSES.get(head)) for head in _HEADS))
    more = _more(len(chosen), number, asked)
    return html(
        tag("h1", "Jobs"),
        said_wrong,
        tag("p", tag("a", "Sums over all jobs: hours, idle time, cost, problems", href="/fleet")),
        form,
        tag(
            "form",
            tag(
                "div",
                tag("table", tag("thead", tag("tr", heads)), tag("tbody", rows), class_="jobs"),
                class_="scroll",
            ),
            more,
            tag("p", tag("button", "Compare selected"), class_="chosen"),
            action="/compare",
            class_="listing",
        ),
    )


def _date(asked: dict[str, str], name: str, label: str) -> Markup:
    value = asked.get(name, "")
    return tag("label", label, " ", tag("input", type="date", name=name, value=value))


def _said(job: ListedJob) -> str:
    """Return the headline of the job's card, or the sentence of its verdict, which has the numbers."""
    verdict = job["verdict"]
    if not (job["fault"] or job["silent_s"]) and isinstance(verdict, dict) and not verdict.get("headline"):
        return str(verdict.get("sentence") or said(job))
    if job["status"] == "Failed" and not said(job) and job["exit_code"] is not None:
        return f"exit code {job['exit_code']}"
    return said(job)


def mood(job: ListedJob) -> str:
    """Return the class that colors the status of a job."""
    status = job["status"]
    if ended_sick(job):
        return "sick"
    return "running" if status in RUNNING else "failed" if status in ("Failed", "Unreadable") else ""


def _row(job: ListedJob) -> Markup:
    created = (
        time.strftime("%Y-%m-%d %H:%M", time.localtime(job["created"] / 1e9)) if job["created"] else "unknown"
    )
    name, store = job["name"], job["store"]
    return tag(
        "tr",
        tag(
            "td",
            tag("input", type="checkbox", name="job", value=f"{store}/{name}", aria_label=f"mark {name}"),
        ),
        tag("td", tag("a", name, href=job_address(name, store))),
        tag("td", _status(job)),
        tag("td", created),
        tag("td", duration(job["duration_s"]), class_="n"),
        tag("td", _step(job), class_="n"),
        tag("td", _verdict(job)),
    )


def _status(job: ListedJob) -> Markup:
    """Draw the status, and how far a running job is."""
    pill = tag("span", status_text(job["status"]), class_=f"pill {mood(job)}")
    step, total = job["step"], job["planned"]
    if step is None:
        return pill
    if not total:
        return html(pill, tag("span", f" step {step:,}", class_="note"))
    share = min(100 * step / total, 100.0)
    bar = tag("progress", max="100", value=f"{share:.1f}", aria_label=f"{share:.0f} % done")
    return html(pill, tag("span", f" step {step:,} of {total:,} ", bar, class_="note"))


def _step(job: ListedJob) -> str:
    """Return the mean step time."""
    verdict = job["verdict"]
    known = verdict.get("step_ms") if isinstance(verdict, dict) else None
    return milliseconds(known) if isinstance(known, int | float) else ""


def _verdict(job: ListedJob) -> Markup:
    """Draw the verdict: a chip, and the sentence behind it, of which two lines are shown."""
    word, how = chip(job)
    text = _said(job)
    drawn = tag("span", word, class_=f"pill {how}") if word else ""
    return html(drawn, " " if word and text else "", tag("span", text, class_="sentence", title=text))


def _more(count: int, number: int, asked: dict[str, str]) -> Markup:
    def link(to: int, text: str) -> Markup:
        return html(tag("a", text, href=f"/?{urlencode({**asked, 'page': to})}"), " ")

    before = link(number - 1, "newer") if number else ""
    after = link(number + 1, "older") if (number + 1) * _A_PAGE < count else ""
    return tag("p", before, after) if before or after else Markup()
