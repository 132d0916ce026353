"""The tensors of a job: search, roles, collections, and the first NaN or infinity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.routing import Route

from holter.dashboard.answers import MOST_OFFSET, kept, whole
from holter.dashboard.api import JOB
from holter.pages.data.encoding import encoded
from holter.views.tensors import STATISTICS, catalog, first_nonfinite, matching

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from holter.dashboard.stores import Stores
    from holter.views.reading import Reading

_MOST = 1000


def routes(stores: Stores) -> list[Route]:
    """Return the route of the list: `search` (words of a name), `collection`, `offset`, `limit`."""

    async def listed(request: Request) -> Response:
        asked = request.query_params
        search, collection = asked.get("search", ""), asked.get("collection", "")
        first = whole(asked, "offset", 0, MOST_OFFSET, 0)
        most = min(whole(asked, "limit", 0, MOST_OFFSET, _MOST), _MOST)

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
        return await kept(stores, request, key, made)

    return [Route(f"{JOB}/tensors", listed)]
