"""The tensors of a job, searched: names, roles, collections, and where numbers first were not finite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.routing import Route

from holter.dashboard.answers import RefusalError, encoded, which
from holter.dashboard.api import JOB
from holter.views.tensors import STATISTICS, catalog, first_nonfinite, matching

if TYPE_CHECKING:
    from starlette.requests import Request

    from holter.dashboard.stores import Stores
    from holter.views.figures import Reading

_MOST = 1000


def routes(stores: Stores) -> list[Route]:
    """Return the route of the list: `search` (words of a name), `collection`, `offset`, `limit`."""

    async def listed(request: Request) -> Response:
        asked = request.query_params
        search, collection = asked.get("search", ""), asked.get("collection", "")
        first, most = (_number(asked.get(name, ""), name) for name in ("offset", "limit"))
        first, most = first or 0, min(_MOST if most is None else most, _MOST)

        def made(reading: Reading) -> bytes:
            rows = matching(catalog(reading.trial), search, collection)
            return encoded(
                {
                    "schema": 1,
                    "count": len(rows),
                    "tensors": rows[first : first + most],
                    "statistics": {name: one.label for name, one in STATISTICS.items()},
                    "first_nonfinite": first_nonfinite(reading.trial),
                }
            )

        key = f"tensors {search!r} {collection!r} {first} {most}"
        body = await run_in_threadpool(stores.kept, *which(request), key, made)
        return Response(body, media_type="application/json")

    return [Route(f"{JOB}/tensors", listed)]


def _number(text: str, name: str) -> int | None:
    if text and not (text.isdecimal() and len(text) < 10):
        raise RefusalError(f"{name} is {text!r}, which is no whole number")
    return int(text) if text else None
