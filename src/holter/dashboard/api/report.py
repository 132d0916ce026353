"""The report of a job as one file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.routing import Route

from holter.dashboard.answers import HTML, kept, which
from holter.dashboard.api import JOB
from holter.pages.file import page

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from holter.dashboard.stores import Stores
    from holter.views.reading import Reading


def routes(stores: Stores) -> list[Route]:
    """Return the route of the report."""

    async def report(request: Request) -> Response:
        job, store = which(request)
        await run_in_threadpool(stores.folder, job, store)

        def made(reading: Reading) -> bytes:
            return page(reading).encode()

        # However many ask at once: it is made once, and takes one thread.
        name = f'attachment; filename="{job}.html"'
        return await kept(stores, request, "report", made, HTML, content_disposition=name)

    return [Route(f"{JOB}/report", report)]
