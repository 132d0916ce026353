"""Heat maps of utilization: one number per device and pixel column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route

from holter.dashboard.answers import in_turn, points_of, which, window_of
from holter.dashboard.api import JOB
from holter.pages.data.heatmap import heatmap_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from holter.dashboard.stores import Stores


def routes(stores: Stores) -> list[Route]:
    """Return the route of heat maps."""

    async def answer(request: Request) -> Response:
        asked = dict(request.query_params)
        body = await in_turn(stores, lambda: _window(stores, *which(request), asked))
        return Response(body, media_type="application/octet-stream", headers={"content-encoding": "identity"})

    return [Route(f"{JOB}/heatmap", answer)]


def _window(stores: Stores, job: str, store: int, asked: Mapping[str, str]) -> bytes:
    """Return a window as bytes: the length of a head as JSON, that, then mean, least and greatest."""
    window, width = window_of(asked), points_of(asked, 1000)
    with stores.state(job, store).heatmap() as heatmap:
        start = heatmap.start_ns
        since, until = window or (0.0, (heatmap.end_ns - start) / 1e9)
        begin = start + round(since * 1e9)
        heat = heatmap.heat(begin, max(begin + width, start + round(until * 1e9)), width)
    return heatmap_bytes(heat, heatmap, asked.get("node") or None)
