"""Metrics of running jobs for Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from holter.dashboard.answers import in_turn
from holter.dashboard.metrics import exposition

if TYPE_CHECKING:
    from starlette.requests import Request

    from holter.dashboard.stores import Stores


def routes(stores: Stores) -> list[Route]:
    """Return the route `/metrics`."""

    async def metrics(request: Request) -> Response:
        text = await in_turn(stores, lambda: exposition(stores))
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    return [Route("/metrics", metrics)]
