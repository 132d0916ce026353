"""Routes of the pages: the list of jobs, the pages of a job, comparisons, and the app's files."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse
from starlette.routing import Route

from holter.analysis.slow_group import ranks_text
from holter.dashboard import fleet_page, listing
from holter.dashboard.answers import (
    HTML,
    MOST_OFFSET,
    MOST_STORES,
    RefusalError,
    in_turn,
    kept,
    points_of,
    which,
    whole,
    window_of,
)
from holter.dashboard.comparison_page import saving_parameters, side_by_side
from holter.dashboard.frame import framed
from holter.dashboard.overlays import overlaid, places
from holter.drawing.figure import figure
from holter.drawing.markup import html, tag, trusted
from holter.pages import assets
from holter.pages.addresses import job_address
from holter.pages.drawer import drawers
from holter.pages.islands import Rendering, island
from holter.pages.job import FIRST, MOVED, pages
from holter.pages.overview.findings import count, findings
from holter.pages.shell import header, rank_choice, state_text, tabs
from holter.pages.text import sections
from holter.store.trial import Trial
from holter.views.comparison.document import compare
from holter.views.comparison.overlays import OVERLAYS, missing
from holter.views.fleet import fleet
from holter.views.jobs import RUNNING, said, summary
from holter.views.step_clock import time_of_step
from holter.views.tables import is_long

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from markupsafe import Markup
    from starlette.requests import Request
    from starlette.responses import Response

    from holter.dashboard.overlays import ServedJob
    from holter.dashboard.stores import Stores
    from holter.pages.shell import Tab
    from holter.store.job import JobFolder
    from holter.views.comparison.types import Comparison
    from holter.views.document.types import Description
    from holter.views.reading import Reading


_SHARE = 0.05
"""Share of a core that is spent on comparing running jobs again; the charts are always new."""


def routes(stores: Stores) -> list[Route]:
    """Return the routes of the pages."""
    site = _Site(stores)
    return [
        Route("/", site.jobs),
        Route("/jobs/{job}", site.job),
        Route("/jobs/{job}/{page}", site.job),
        Route("/compare", site.compare),
        Route("/fleet", site.fleet),
        Route("/app/{state}/{name:path}", _asset),
    ]


async def _asset(request: Request) -> Response:
    """Answer with a script or a style; its address changes with its contents, so browsers keep it."""
    name = request.path_params["name"]
    asset = assets.found(name)
    if asset is None:
        raise RefusalError(f"there is no file {name!r}", 404)
    path, kind = asset
    return FileResponse(
        path, media_type=kind, headers={"cache-control": "public, max-age=31536000, immutable"}
    )


class _Site:
    def __init__(self, stores: Stores) -> None:
        self.stores = stores
        self._last: tuple[tuple[Any, ...], float, Comparison] | None = None
        """The last comparison: its jobs and their states, until when it is valid, and its document."""

    async def jobs(self, request: Request) -> Response:
        asked = {key: request.query_params.get(key, "") for key in listing.ASKED}
        whole = listing.needs_all(asked)
        listed, wrong = await run_in_threadpool(lambda: self.stores.listed(whole=whole))
        return framed("Jobs", listing.page(listed, wrong, asked), data={"events": "/events"})

    async def fleet(self, request: Request) -> Response:
        """Answer with the sums over all jobs."""
        asked = dict(request.query_params)
        price, days = fleet_page.asked_for(asked)
        found = await run_in_threadpool(lambda: fleet(self.stores.urls, price=price, days=days))
        return framed("Fleet", fleet_page.page(found, asked))

    async def job(self, request: Request) -> Response:
        """Answer with a page of a job, or with its contents only for `part=inside`."""
        job, store = which(request)
        name = request.path_params.get("page", FIRST).replace("-", "_")
        by_name = {**pages(), **drawers()}
        given = request.query_params
        if name in MOVED:
            return _moved(job, name, dict(given))
        if name not in by_name:
            known = ", ".join(page.replace("_", "-") for page in by_name)
            raise RefusalError(f"a job has no page {name!r}; there are: {known}", 404)
        if given.get("step"):
            return await in_turn(self.stores, lambda: self._at_step(job, store, name, dict(given)))
        asked = {name: ",".join(given.getlist(name)) for name in given}
        window, width = window_of(asked), points_of(asked)
        inside = asked.pop("part", "") == "inside"
        asked["store"] = str(store)

        query = {key: value for key, value in asked.items() if key != "paint"}
        there = f"?{urlencode({**query, 'paint': 'now'})}"

        def made(reading: Reading) -> bytes:
            _check_rank(reading, asked)
            # A browser with scripts shows the text first and adds each chart when it is drawn.
            waits = asked.get("paint") != "now" and assets.complete() and is_long(reading.trial)
            rendering = Rendering(refreshed=inside, later=there if waits else "", baseline=baseline)
            drawn: str = by_name[name].draw(reading.at(window, width), asked, rendering)
            return drawn.encode()

        baseline, known_as = await in_turn(
            self.stores, lambda: self._baseline(asked.get("baseline", ""), store)
        )
        key = f"page {name} {sorted(asked.items())} {inside} {known_as}"

        def alone(reading: Reading) -> bytes:
            return _with_facts(made(reading), _facts(reading.description, reading))

        state = self.stores.last(job, store)
        described = state is not None and state.described
        if inside and described:  # many tabs ask for this after each change
            return await kept(self.stores, request, key, alone, HTML)
        # Taken before drawing, so that the page is notified of changes meanwhile.
        stamp = await run_in_threadpool(self.stores.stamp, job, store)
        folder = None if described else await run_in_threadpool(self.stores.early, job, store)
        if folder is not None:
            document = await run_in_threadpool(_early_document, folder)
            page, facts = _early_page(document, asked), _facts(document, early=True)
            if inside:
                return HTMLResponse(_with_facts(page.encode(), facts))
        elif inside:
            return await kept(self.stores, request, key, alone, HTML)

        def complete() -> tuple[Markup, dict[str, object], list[Tab], list[int]]:
            page = trusted(self.stores.kept(job, store, key, made).decode())
            with self.stores.reading(job, store) as reading:
                told = reading.description
                links = tabs(job, store, asked, reading, told["rules"])
                return page, _facts(told, reading), links, told["ranks"]

        ranks: list[int] = []
        if folder is None:
            page, facts, links, ranks = await in_turn(self.stores, complete)
        else:
            links = tabs(job, store, asked, None)
        events = f"/events?{urlencode({'job': job, 'store': store, 'stamp': stamp})}"
        data = {
            "job": job,
            "store": store,
            **facts,
            "events": events,
            "page": name,
            "rank": asked.get("rank"),
        }
        rank = rank_choice(ranks, asked)
        head = header(links, name, job=job, state=str(facts["state"]), rank=rank, strip=name in pages())
        return framed(f"{by_name[name].TITLE} · {job}", page, data=data, head=head)

    def _baseline(self, asked: str, store: int) -> tuple[Description | None, int]:
        """Return the job to compare with, named `JOB` or `STORE/JOB`, and a number of its state."""
        if not asked:
            return None, 0
        number, slash, name = asked.partition("/")
        place = whole({"baseline": number}, "baseline", 0, MOST_STORES - 1) if slash else store
        with self.stores.reading(name if slash else asked, place) as reading:
            return reading.description, self.stores.stamp(name if slash else asked, place)

    def _at_step(self, job: str, store: int, page: str, asked: dict[str, str]) -> Response:
        """Answer with the address that shows a step, with a little time around it."""
        number = whole(asked, "step", 0, MOST_OFFSET)
        rank = whole(asked, "rank", 0, MOST_OFFSET) if asked.get("rank") else None
        with self.stores.reading(job, store) as reading:
            begin, end = time_of_step(reading.steps, reading.start, number, rank)
        around = 0.1 * (end - begin)
        window = {"from": f"{max(begin - around, 0):.6f}", "to": f"{end + around:.6f}"}
        rest = {name: value for name, value in asked.items() if name != "step"}
        return _redirect(job, page, {**rest, **window})

    async def compare(self, request: Request) -> Response:
        chosen = request.query_params.getlist("job")
        asked = dict(request.query_params)
        inside = asked.pop("part", "") == "inside"
        page, data = await in_turn(self.stores, lambda: self._compared(chosen, asked, inside))
        if inside:
            return HTMLResponse(_with_facts(page.encode(), data))
        return framed("Comparison", page, data=data)

    def _compared(
        self, chosen: list[str], asked: dict[str, str], inside: bool
    ) -> tuple[Markup, dict[str, object]]:
        """Return the contents of a comparison and the data of its scripts; reuse those of running jobs."""
        baseline = asked.get("baseline", "")
        of = places(self.stores, chosen, baseline)
        rendering = Rendering(refreshed=inside)
        numbers, parameters = saving_parameters(asked), tuple(sorted(asked.items()))
        key = (tuple(chosen), parameters, tuple(self.stores.stamp(one.folder.name, one.store) for one in of))
        runs = [one for one in of if one.folder.manifest().get("status") in RUNNING]
        last, began = self._last, time.monotonic()
        known = last is not None and last[0][:2] == key[:2]
        if last is None or not (known and (last[0] == key or (runs and began < last[1]))):
            document = compare([Trial(one.folder) for one in of], **numbers)
            took = time.monotonic() - began
            last = self._last = (key, began + took / _SHARE, document)
        charts = html(
            *(island(rendering, "figure", partial(self._overlay, of, name), figure=name) for name in OVERLAYS)
        )
        charts = html(tag("h2", "On the same axes"), tag("div", charts, class_="charts"))
        followed = {"job": runs[-1].folder.name, "store": runs[-1].store} if runs else {}
        data: dict[str, object] = {
            "compare": urlencode([*(("job", one) for one in chosen), ("baseline", baseline)]),
            "events": f"/events?{urlencode(followed)}" if runs else "",
            "running": "yes" if runs else "",
        }
        named = [f"{one.store}/{one.folder.name}" for one in of]
        return side_by_side(last[2], named, asked, charts), data

    def _overlay(self, of: Sequence[ServedJob], name: str) -> Markup:
        drawn = overlaid(self.stores, of, [name], 300)[name]
        return tag("p", missing(name), class_="note") if drawn is None else figure(drawn)


def _check_rank(reading: Reading, asked: Mapping[str, str]) -> None:
    """Refuse a rank that the job does not have."""
    ranks = reading.description["ranks"]
    if asked.get("rank") and whole(asked, "rank", 0, MOST_OFFSET) not in ranks:
        there = ranks_text(ranks) if ranks else "none"
        raise RefusalError(f"this job has no rank {asked['rank']}; it has {there}", 404)


def _moved(job: str, old: str, asked: dict[str, str]) -> Response:
    """Answer with the new address of a page that had another name."""
    page, more = MOVED[old]
    return _redirect(job, page, {**asked, **more})


def _redirect(job: str, page: str, asked: Mapping[str, str]) -> Response:
    below = "" if page == FIRST else f"/{page.replace('_', '-')}"
    query = f"?{urlencode(asked)}" if asked else ""
    return RedirectResponse(f"/jobs/{quote(job)}{below}{query}")


def _facts(
    description: Description, reading: Reading | None = None, *, early: bool = False
) -> dict[str, object]:
    """Return a job's state for scripts; `early` if its description is not complete."""
    job = description["job"]
    return {
        "state": state_text(description, reading),
        "findings": count(description["rules"]) or "",
        "start": job["start"] or "",
        "seconds": job["duration_s"] or 0.0,
        "status": job["status"] or "",
        "running": "yes" if job["status"] in RUNNING else "",
        "early": "yes" if early else "",
    }


def _with_facts(inside: bytes, facts: Mapping[str, object]) -> bytes:
    """Put the facts around a page's inside, as the whole page has them."""
    data = {f"data_{name}": value for name, value in facts.items()}
    return tag("main", trusted(inside.decode()), id="main", **data).encode()


def _early_document(folder: JobFolder) -> Description:
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
    found = {"job": {**job, "headline": headline}, "rules": folder.evaluations().get("rules") or []}
    return cast("Description", found)


def _early_page(description: Description, asked: Mapping[str, str]) -> Markup:
    """Draw the page; it is the same for every page of the job."""
    job = description["job"]["name"]
    headline = sections.bullets([description["job"]["headline"]]) if description["job"]["headline"] else ""
    return html(
        sections.head(description["job"]),
        tag(
            "p",
            "This is a long job. Its tables are being read; the page updates itself in a moment.",
            role="status",
        ),
        tag("noscript", tag("p", "Without JavaScript, load the page again then.")),
        headline,
        tag("h2", "Findings"),
        findings(
            description["rules"], job, job_address(job, int(asked.get("store", "0")), "findings", asked)
        ),
    )
