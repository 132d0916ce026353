"""A job's report as one file to keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from holter.dashboard.answers import which
from holter.dashboard.api import JOB
from holter.plugins import provided

if TYPE_CHECKING:
    from starlette.requests import Request

    from holter.dashboard.stores import Stores


def routes(stores: Stores) -> list[Route]:
    """Return the route of the report."""

    async def report(request: Request) -> Response:
        job, store = which(request)

        def made() -> str:
            with stores.reading(job, store) as reading:
                html: str = provided("holter.report.page")(reading)
                return html

        name = f'attachment; filename="{job}.html"'
        return HTMLResponse(await run_in_threadpool(made), headers={"content-disposition": name})

    return [Route(f"{JOB}/report", report)]
