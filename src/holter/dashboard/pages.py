"""The pages: the jobs of the stores, one job, jobs side by side."""

from __future__ import annotations

import time
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from holter.dashboard.api import RefusalError, chosen_jobs, which
from holter.dashboard.sides import side_by_side
from holter.report.html import body, style
from holter.schema.metrics import INTERVALS_MS
from holter.store.trial import Trial
from holter.views.comparison import compare
from holter.views.jobs import RUNNING, said
from holter.views.wording import duration

if TYPE_CHECKING:
    from starlette.requests import Request

    from holter.dashboard.stores import Stores

_A_PAGE = 100


def routes(stores: Stores) -> list[Route]:
    """Return the routes of the pages."""
    pages = _Pages(stores)
    return [
        Route("/", pages.jobs),
        Route("/jobs/{job}", pages.job),
        Route("/compare", pages.compare),
    ]


class _Pages:
    def __init__(self, stores: Stores) -> None:
        self.stores = stores

    async def jobs(self, request: Request) -> Response:
        listed, wrong = await run_in_threadpool(self.stores.listed)
        asked = {key: request.query_params.get(key, "") for key in ("name", "status", "page")}
        return _page("holter", _listed(listed, wrong, asked), "")

    async def job(self, request: Request) -> Response:
        name, store = which(request)

        def made() -> str:
            with self.stores.reading(name, store) as reading:
                return _bar(name, store, reading.description["job"]["status"]) + "".join(body(reading))

        return _page(name, await run_in_threadpool(made), f"job={quote(name)}&store={store}")

    async def compare(self, request: Request) -> Response:
        chosen = request.query_params.getlist("job")
        if len(chosen) < 2:
            raise RefusalError("mark two jobs or more in the list to compare them")

        def made() -> str:
            places = [text.partition("/") for text in chosen]
            folders = [
                self.stores.folder(name, int(store) if store.isdigit() else -1) for store, _, name in places
            ]
            # The oldest is the baseline.
            folders.sort(key=lambda folder: folder.manifest().get("created") or 0)
            return side_by_side(compare([Trial(folder) for folder in folders]))

        return _page("comparison", await run_in_threadpool(made), None)


def refused(text: str, code: int) -> Response:
    """Return a page that says what is wrong, and the way on."""
    inside = f'<h1>{escape(text)}</h1><p><a href="/">All jobs</a></p>'
    return _page("holter", inside, None, code)


def _page(title: str, inside: str, watched: str | None, code: int = 200) -> Response:
    """Wrap a page; `watched` is what its events are about, None when nothing changes it."""
    live = "" if watched is None else f' data-events="/events?{escape(watched, quote=True)}"'
    return HTMLResponse(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)} · holter</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'{style()}<link rel="stylesheet" href="/static/live.css"><link rel="icon" href="data:,">'
        '<script type="module" src="/static/live.js"></script></head>'
        f'<body><nav><a href="/">holter</a><span id="state" role="status"></span></nav>'
        f'<main id="main"{live}>{inside}</main></body></html>',
        code,
    )


def _listed(listed: list[dict[str, Any]], wrong: list[str], asked: dict[str, str]) -> str:
    chosen = chosen_jobs(listed, asked["name"], asked["status"])
    number = int(asked["page"]) if asked["page"].isdigit() else 0
    shown = chosen[number * _A_PAGE : (number + 1) * _A_PAGE]
    statuses = "".join(
        f"<option{' selected' if status == asked['status'] else ''}>{escape(status)}</option>"
        for status in sorted({job["status"] for job in listed})
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
    address = f"/jobs/{quote(job['name'])}?store={job['store']}"
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


def _bar(name: str, store: int, status: str) -> str:
    """The orders that a job takes, and its files."""
    at = f"/api/v1/jobs/{escape(quote(name), quote=True)}"
    report = f'<a href="{at}/report?store={store}" download>Download the report</a>'
    if status not in RUNNING:
        return f'<div class="orders">{report}</div>'
    choices = "".join(f'<option value="{ms}">{ms:,} ms</option>' for ms in INTERVALS_MS)
    return (
        f'<div class="orders" data-at="{at}" data-store="{store}">{report}'
        '<label>sample every <select data-order="configure"><option value="">as now</option>'
        f"{choices}</select></label>"
        '<button data-order="stop">Stop the training</button><output></output></div>'
    )
