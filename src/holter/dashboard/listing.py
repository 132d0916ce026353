"""The page with the list of jobs: search, groups, pages, and selection for a comparison."""

from __future__ import annotations

import re
import time
from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from markupsafe import Markup

from holter.analysis.verdict.evidence import counted
from holter.dashboard.answers import MOST_OFFSET, RefusalError, whole
from holter.dashboard.job_list import UNREAD
from holter.drawing.markup import html, tag
from holter.drawing.sparkline import sparkline
from holter.pages.addresses import job_address
from holter.views.jobs import RUNNING, chip, ended_sick, said, tagged
from holter.views.wording import duration, milliseconds, status_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from holter.views.jobs import ListedJob

ASKED = ("name", "status", "tag", "since", "until", "group", "page")
_A_PAGE = 100
_HEADS = ("", "job", "status", "created", "duration", "step", "course of the step time", "verdict")
_CLASSES = {"duration": "n", "step": "n"}
_BY_NAME = "name"
_OF_TAG = "tag:"
"""What `group` is: the beginning of the name, or this with the key of a tag."""
_NUMBERED = re.compile(r"([-_.][a-z]{0,8}\d+)+$")
"""What tells the jobs of one script or sweep apart: numbers at the end, as in `lr-0.1-seed3`."""
_MOST_TAGS = 200
"""Tags that the search suggests."""


def needs_all(asked: Mapping[str, str]) -> bool:
    """Tell whether a list has to wait until every job is read: names and days are known before."""
    return bool(asked["status"] or asked["tag"] or asked["group"].startswith(_OF_TAG))


def chosen_jobs(listed: list[ListedJob], asked: Mapping[str, str]) -> list[ListedJob]:
    """Return the jobs that an address asks for; raises `RefusalError` for an invalid day.

    `name` is a part of the name, `tag` is `KEY` or `KEY=VALUE`; `since` and `until` are the first and the
    last day of creation in this machine's time, as `2026-01-31`.
    """
    name, status = asked.get("name", "").lower(), asked.get("status", "").lower()
    first, last = _day(asked, "since"), _day(asked, "until", timedelta(days=1))
    return [
        job
        for job in listed
        if name in job["name"].lower()
        and (not status or job["status"].lower() == status)
        and tagged(job, asked.get("tag", ""))
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
    chosen, counts = _grouped(chosen_jobs(listed, asked), asked["group"])
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
        _tag_fields(listed, asked),
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
    rows = html(*_rows(shown, counts, asked)) or tag(
        "tr", tag("td", "No matching jobs.", colspan=f"{len(_HEADS)}")
    )
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


def _tag_fields(listed: list[ListedJob], asked: Mapping[str, str]) -> Markup:
    """Draw what narrows the list to a tag and what groups it; without any tag, only the latter."""
    known = Counter(
        f"{key}={value}" if value else key for job in listed for key, value in job["tags"].items()
    )
    keys = sorted({key for job in listed for key in job["tags"]})
    by = [("", "no groups"), (_BY_NAME, "by name"), *((f"{_OF_TAG}{key}", f"by tag {key}") for key in keys)]
    groups = (tag("option", text, value=value, selected=value == asked["group"]) for value, text in by)
    field = {"name": "tag", "type": "search", "aria_label": "tag", "placeholder": "tag", "list": "tags"}
    suggested = (tag("option", value=text) for text, _ in known.most_common(_MOST_TAGS))
    return html(
        html(tag("input", value=asked["tag"], **field), tag("datalist", *suggested, id="tags"))
        if known or asked["tag"]
        else None,
        tag("select", *groups, name="group", aria_label="groups"),
    )


def _group(job: ListedJob, by: str) -> str:
    """Return the name of a job's group, empty for none."""
    if by == _BY_NAME:
        return _NUMBERED.sub("", job["name"])
    return job["tags"].get(by.removeprefix(_OF_TAG), "") if by.startswith(_OF_TAG) else ""


def _grouped(jobs: list[ListedJob], by: str) -> tuple[list[ListedJob], Counter[str]]:
    """Return jobs group by group, the group with the newest job first, and the size of each group.

    Jobs without a group are last.
    """
    if not by:
        return jobs, Counter()
    counts = Counter(_group(job, by) for job in jobs)
    order = {name: at for at, name in enumerate(sorted(counts, key=lambda name: not name))}
    return sorted(jobs, key=lambda job: order[_group(job, by)]), counts


def _rows(shown: Sequence[ListedJob], counts: Counter[str], asked: Mapping[str, str]) -> Iterator[Markup]:
    """Draw the rows of jobs, and one above each group."""
    before = None
    for job in shown:
        name = _group(job, asked["group"])
        if counts and name != before:
            before = name
            said = tag("span", f" {counted(counts[name], 'job')}", class_="note")
            yield tag(
                "tr", tag("th", name or "without a group", said, colspan=f"{len(_HEADS)}", scope="rowgroup"),
                class_="group",
            )  # fmt: skip
        yield _row(job)


def _date(asked: dict[str, str], name: str, label: str) -> Markup:
    value = asked.get(name, "")
    return tag("label", label, " ", tag("input", type="date", name=name, value=value))


def _said(job: ListedJob) -> str:
    """Return the headline of the job's card, or the sentence of its verdict, which has the numbers."""
    verdict = job["verdict"]
    if not (job["fault"] or job["silent_s"]) and isinstance(verdict, dict) and not verdict.get("headline"):
        return str(verdict.get("sentence") or said(job))
    text = said(job)
    return "" if text == chip(job)[0] else text


def mood(job: ListedJob) -> str:
    """Return the class that colors the status of a job."""
    status = job["status"]
    if ended_sick(job) or job["silent_s"]:
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
        tag("td", tag("a", name, href=job_address(name, store)), _tags(job)),
        tag("td", _status(job)),
        tag("td", created),
        tag("td", duration(job["duration_s"]), class_="n"),
        tag("td", _step(job), class_="n"),
        tag("td", sparkline(job["course"] or (), _course(job), bottom=0.0), title=_course(job) or None),
        tag("td", _verdict(job)),
    )


def _tags(job: ListedJob) -> Markup | None:
    """Draw the tags of a job; each leads to the jobs that have it."""
    texts = [f"{key}={value}" if value else key for key, value in sorted(job["tags"].items())]
    links = [
        tag("a", text, href=f"/?{urlencode({'tag': text})}", title="jobs with this tag") for text in texts
    ]
    return tag("div", *links, class_="tags") if links else None


def _course(job: ListedJob) -> str:
    """Say what the small curve shows."""
    known = [value for value in job["course"] or () if value is not None]
    if not known:
        return ""
    of = "step time in the last hour" if job["status"] in RUNNING else "step time"
    return f"{of}, {milliseconds(min(known))} to {milliseconds(max(known))}"


def _status(job: ListedJob) -> Markup:
    """Draw the status, and how far a running job is."""
    pill = tag(
        "span", "Silent" if job["silent_s"] else status_text(job["status"]), class_=f"pill {mood(job)}"
    )
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
