"""Builds the ASGI application: pages, API and access control."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Route

from holter.dashboard import api, site
from holter.dashboard.answers import RefusalError, answered
from holter.dashboard.frame import framed
from holter.dashboard.gate import Gate
from holter.dashboard.live import Live
from holter.dashboard.stores import Stores
from holter.drawing.markup import html, tag
from holter.store.parquet import queries as parquet

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp


_REFUSED = (
    RefusalError, LookupError, OSError, ValueError, OverflowError, RecursionError, HTTPException
)  # fmt: skip
"""Errors that are answered with a sentence."""


def application(
    stores: Sequence[str], token: str, hosts: Collection[str] = (), *, embed: bool = False
) -> ASGIApp:
    """Return the dashboard of stores, given by URL or folder; every request must carry the token.

    `hosts` are the valid names in the Host header; empty for any name. With `embed`, pages of this machine
    may show it in a frame.
    """
    served = Stores(stores)
    # Loading the database takes longer than the first answers, so it begins before the first request.
    threading.Thread(target=lambda: parquet.connect().close(), daemon=True).start()
    app = Starlette(
        routes=[
            *site.routes(served),
            *api.routes(served),
            Route("/events", Live(served).events),
        ],
        middleware=[Middleware(GZipMiddleware, minimum_size=1000, compresslevel=5)],
        exception_handlers=dict.fromkeys(_REFUSED, _wrong),
    )
    return Gate(app, token, hosts, embed=embed)


async def _wrong(request: Request, error: Exception) -> Response:
    """Answer an error with a sentence: as JSON for the API, else as a page. Never a stack trace."""
    if isinstance(error, RefusalError):
        code = error.code
    elif isinstance(error, HTTPException):
        code = error.status_code
    else:
        code = 404 if isinstance(error, LookupError) else 503 if isinstance(error, OSError) else 400
    text = error.detail if isinstance(error, HTTPException) else str(error.args[0] if error.args else error)
    if code == 404 and isinstance(error, HTTPException):
        text = f"There is nothing at {request.url.path}."
    if request.url.path.startswith("/api/"):
        return answered({"schema": 1, "error": text}, code)
    inside = html(tag("h1", text, class_="wrong"), tag("p", tag("a", "All jobs", href="/")))
    return framed("holter", inside, code=code)
