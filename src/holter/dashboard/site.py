"""The addresses of the pages: the list of jobs, a job's pages, jobs side by side."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.routing import Route

from holter.dashboard import listing
from holter.dashboard.answers import RefusalError, kept, points_of, which, window_of
from holter.dashboard.frame import framed, navigation
from holter.dashboard.islands import REFRESHED
from holter.dashboard.pages import FIRST, pages
from holter.dashboard.sides import side_by_side, told
from holter.store.trial import Trial
from holter.views.comparison import compare
from holter.views.jobs import RUNNING

if TYPE_CHECKING:
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

        def made(reading: Reading) -> bytes:
            REFRESHED.set(inside)
            drawn: str = shelf[name].draw(reading.at(window, width), asked)
            return drawn.encode()

        key = f"page {name} {sorted(asked.items())} {inside}"
        if inside:
            return await kept(
                self.stores, request, key, lambda reading: _with_facts(made(reading), reading), HTML
            )

        def whole() -> tuple[str, dict[str, object], int]:
            stamp = self.stores.stamp(job, store)  # before it is drawn: what comes meanwhile is told
            html = self.stores.kept(job, store, key, made).decode()
            with self.stores.reading(job, store) as reading:
                return html, _facts(reading), stamp

        html, facts, stamp = await run_in_threadpool(whole)
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


def _facts(reading: Reading) -> dict[str, object]:
    """Return what scripts know of a job's state."""
    told = reading.description["job"]
    return {
        "start": told["start"] or "",
        "seconds": told["duration_s"] or 0.0,
        "status": told["status"] or "",
        "running": "yes" if told["status"] in RUNNING else "",
    }


def _with_facts(html: bytes, reading: Reading) -> bytes:
    """Put the facts around a page's inside, as the whole page has them."""
    told = "".join(
        f' data-{key}="{escape(str(value), quote=True)}"' for key, value in _facts(reading).items()
    )
    return f'<main id="main"{told}>'.encode() + html + b"</main>"
