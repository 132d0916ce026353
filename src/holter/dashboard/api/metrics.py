"""What runs now, for Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from holter.dashboard.metrics import exposition

if TYPE_CHECKING:
    from starlette.requests import Request

    from holter.dashboard.stores import Stores


def routes(stores: Stores) -> list[Route]:
    """Return the route `/metrics`."""

    async def metrics(request: Request) -> Response:
        text = await run_in_threadpool(exposition, stores)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    return [Route("/metrics", metrics)]
