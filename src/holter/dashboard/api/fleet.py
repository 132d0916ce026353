"""All jobs of the served stores, summed up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.routing import Route

from holter.dashboard.answers import answered, in_turn
from holter.dashboard.fleet_page import asked_for
from holter.views.fleet import fleet

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from holter.dashboard.stores import Stores


def routes(stores: Stores) -> list[Route]:
    """Return the route of the sums."""

    async def summed(request: Request) -> Response:
        price, days = asked_for(request.query_params)
        return answered(await in_turn(stores, lambda: fleet(stores.urls, price=price, days=days)))

    return [Route("/api/v1/fleet", summed)]
