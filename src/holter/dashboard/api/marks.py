"""Moments of a job that its charts mark: findings, checkpoints, epochs, profiling windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.routing import Route

from holter.dashboard.answers import kept
from holter.dashboard.api import JOB
from holter.pages.data.encoding import encoded
from holter.views.marks import marks

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from holter.dashboard.stores import Stores
    from holter.views.reading import Reading


def routes(stores: Stores) -> list[Route]:
    """Return the route of a job's marks."""

    def made(reading: Reading) -> bytes:
        return encoded({"schema": 1, "marks": marks(reading)})

    async def told(request: Request) -> Response:
        return await kept(stores, request, "marks", made)

    return [Route(f"{JOB}/marks", told)]
