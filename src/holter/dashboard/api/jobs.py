"""The list of jobs, the description of a job, and its issues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.routing import Route

from holter.dashboard.answers import MOST_OFFSET, answered, in_turn, which, whole
from holter.dashboard.api import JOB
from holter.dashboard.listing import chosen_jobs
from holter.views.issues import ordered

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from holter.dashboard.stores import Stores
    from holter.views.document.types import Description

_MOST = 500


def routes(stores: Stores) -> list[Route]:
    """Return the routes of the list, of a job's description, and of its issues."""

    async def listed(request: Request) -> Response:
        asked = request.query_params
        found, wrong = await run_in_threadpool(stores.listed)
        chosen = chosen_jobs(found, asked)
        first = whole(asked, "offset", 0, MOST_OFFSET, 0)
        most = min(whole(asked, "limit", 0, MOST_OFFSET, _MOST), _MOST)
        return answered(
            {"schema": 1, "count": len(chosen), "jobs": chosen[first : first + most], "unreadable": wrong}
        )

    def description(job: str, store: int) -> Description:
        with stores.reading(job, store) as reading:
            return reading.description

    async def described(request: Request) -> Response:
        return answered(await in_turn(stores, lambda: description(*which(request))))

    async def issues(request: Request) -> Response:
        document = await in_turn(stores, lambda: description(*which(request)))
        found = [
            {"rule": one.rule, **one.issue, "symptoms": [symptom.rule for symptom in one.symptoms]}
            for one in ordered(document["rules"])
        ]
        return answered({"schema": 1, "issues": found})

    return [Route("/api/v1/jobs", listed), Route(JOB, described), Route(f"{JOB}/issues", issues)]
