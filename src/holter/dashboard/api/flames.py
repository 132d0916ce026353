"""Flame graphs as data: a tree of functions for each source of stacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.routing import Route

from holter.dashboard.answers import kept
from holter.dashboard.api import JOB
from holter.pages.data.encoding import encoded
from holter.pages.profile.flame import asked_part
from holter.views.flames import flames

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from holter.dashboard.stores import Stores
    from holter.views.reading import Reading


def routes(stores: Stores) -> list[Route]:
    """Return the route of the flame graphs of a job, or a part: `mode`, `phase`, `rank`, `first`, `last`."""

    async def listed(request: Request) -> Response:
        chosen = asked_part(request.query_params)

        def made(reading: Reading) -> bytes:
            return encoded({"schema": 1, "flames": list(flames(reading.trial, chosen))})

        return await kept(stores, request, f"flames {chosen}", made)

    return [Route(f"{JOB}/flames", listed)]
