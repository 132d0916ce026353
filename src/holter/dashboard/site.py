"""The addresses of the pages: the list of jobs, a job's pages, jobs side by side."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse
from starlette.routing import Route

from holter.dashboard import assets, early, listing
from holter.dashboard.answers import RefusalError, kept, points_of, which, window_of
from holter.dashboard.frame import framed, navigation
from holter.dashboard.islands import LATER, REFRESHED
from holter.dashboard.pages import FIRST, pages
from holter.dashboard.sides import side_by_side, told
from holter.store.trial import Trial
from holter.views.comparison import compare
from holter.views.jobs import RUNNING
from holter.views.reading import is_long

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from holter.dashboard.stores import Stores
    from holter.views.figures import Reading


HTML = "text/html; charset=utf-8"


def routes(stores: Stores) -> list[Route]:
    """Return the routes of the pages."""
    site = _Site(stores)
    return [
        Route("/", site.jobs),
        Route("/jobs/{job}", site.job),
        Route("/jobs/{job}/{page}", site.job),
        Route("/compare", site.compare),
    ]


class _Site:
    def __init__(self, stores: Stores) -> None:
        self.stores = stores

    async def jobs(self, request: Request) -> Response:
        # Only who asks for a status has to wait until every job's is known.
        whole = bool(request.query_params.get("status"))
        listed, wrong = await run_in_threadpool(lambda: self.stores.listed(whole=whole))
        asked = {key: request.query_params.get(key, "") for key in listing.ASKED}
        return framed("Jobs", listing.page(listed, wrong, asked), data={"events": "/events"})

    async def job(self, request: Request) -> Response:
        """Draw one page of a job; its inside alone, without first paints, for who has the page already."""
        job, store = which(request)
        name = request.path_params.get("page", FIRST).replace("-", "_")
        shelf = pages()
        if name not in shelf:
            known = ", ".join(page.replace("_", "-") for page in shelf)
            raise RefusalError(f"a job has no page {name!r}; there are: {known}", 404)
        given = request.query_params
        asked = {name: ",".join(given.getlist(name)) for name in given}
        window, width = window_of(asked), points_of(asked)
        inside = asked.pop("part", "") == "inside"
        asked["store"] = str(store)

        query = {key: value for key, value in asked.items() if key != "paint"}
        there = f"?{urlencode({**query, 'paint': 'now'})}"

        def made(reading: Reading) -> bytes:
            REFRESHED.set(inside)
            # Whoever runs scripts sees the text first; its charts come when they are drawn.
            waits = asked.get("paint") != "now" and assets.complete() and is_long(reading.trial)
            LATER.set(there if waits else "")
            drawn: str = shelf[name].draw(reading.at(window, width), asked)
            return drawn.encode()

        key = f"page {name} {sorted(asked.items())} {inside}"
        # Before it is drawn: what comes meanwhile is told.
        stamp = await run_in_threadpool(self.stores.stamp, job, store)
        folder = None
        if not self.stores.described(job, store):
            folder = await run_in_threadpool(self.stores.early, job, store)
        if folder is not None:
            document = await run_in_threadpool(early.document, folder)
            html, facts = early.page(document, asked), _facts(document, early=True)
            if inside:
                return HTMLResponse(_with_facts(html.encode(), facts))
        elif inside:
            return await kept(
                self.stores,
                request,
                key,
                lambda reading: _with_facts(made(reading), _facts(reading.description)),
                HTML,
            )

        def whole() -> tuple[str, dict[str, object]]:
            html = self.stores.kept(job, store, key, made).decode()
            with self.stores.reading(job, store) as reading:
                return html, _facts(reading.description)

        if folder is None:
            html, facts = await run_in_threadpool(whole)
        events = f"/events?{urlencode({'job': job, 'store': store, 'stamp': stamp})}"
        data = {"job": job, "store": store, **facts, "events": events, "page": name}
        bar = navigation(job, store, [(name, page.TITLE) for name, page in shelf.items()], name, asked)
        return framed(f"{shelf[name].TITLE} · {job}", html, data=data, navigation=bar)

    async def compare(self, request: Request) -> Response:
        chosen = request.query_params.getlist("job")
        if len(chosen) < 2:
            raise RefusalError("mark two jobs or more in the list to compare them")

        asked = dict(request.query_params)

        def made() -> str:
            places = [text.partition("/") for text in chosen]
            folders = [
                self.stores.folder(name, int(store) if store.isdigit() else -1) for store, _, name in places
            ]
            # The oldest is the baseline.
            folders.sort(key=lambda folder: folder.manifest().get("created") or 0)
            document = compare([Trial(folder) for folder in folders], **told(asked))
            return side_by_side(document, chosen, asked)

        return framed("Comparison", await run_in_threadpool(made))


def _facts(told: Mapping[str, Any], *, early: bool = False) -> dict[str, object]:
    """Return what scripts know of a job's state; `early`: there is more to come."""
    of = told["job"]
    return {
        "start": of["start"] or "",
        "seconds": of["duration_s"] or 0.0,
        "status": of["status"] or "",
        "running": "yes" if of["status"] in RUNNING else "",
        "early": "yes" if early else "",
    }


def _with_facts(html: bytes, facts: Mapping[str, object]) -> bytes:
    """Put the facts around a page's inside, as the whole page has them."""
    told = "".join(f' data-{key}="{escape(str(value), quote=True)}"' for key, value in facts.items())
    return f'<main id="main"{told}>'.encode() + html + b"</main>"
