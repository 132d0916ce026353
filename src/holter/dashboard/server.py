"""Builds the ASGI application: pages, API and access control."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Route

from holter.dashboard import api, site
from holter.dashboard.access import Access
from holter.dashboard.answers import RefusalError, answered, which
from holter.dashboard.audit import Audit
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
    stores: Sequence[str],
    access: Access | str,
    hosts: Collection[str] = (),
    audit: Audit | None = None,
    *,
    embed: bool = False,
) -> ASGIApp:
    """Return the dashboard of stores, given by URL or folder; every request must carry a token.

    `access` are the tokens, or the secret that they come from. `hosts` are the valid names in the Host
    header; empty for any name. `audit` notes the orders. With `embed`, pages of this machine may show it in a
    frame.
    """
    served = Stores(stores)
    access = Access(access) if isinstance(access, str) else access
    # Loading the database takes longer than the first answers, so it begins before the first request.
    # At its end Python waits for it: a thread that is ended inside of the database aborts the process.
    threading.Thread(target=lambda: parquet.connect().close()).start()
    app = Starlette(
        routes=[
            *site.routes(served),
            *api.routes(served),
            Route("/events", Live(served).events),
            Route(f"{api.JOB}/link", partial(_link, access)),
        ],
        middleware=[Middleware(GZipMiddleware, minimum_size=1000, compresslevel=5)],
        exception_handlers=dict.fromkeys(_REFUSED, _wrong),
    )
    return Gate(app, access, hosts, audit or Audit(), embed=embed)


async def _link(access: Access, request: Request) -> Response:
    """Answer with the address that shows one job and gives no orders; only for those who may do all."""
    if request.scope.get("holter.right") != "all":
        raise RefusalError("only the address that `holter ui` printed first makes links", 403)
    job, store = which(request)
    path = f"/jobs/{quote(job)}?store={store}&token={access.of_job(store, job)}"
    base = request.base_url
    return answered({"schema": 1, "job": job, "address": f"{base.scheme}://{base.netloc}{path}"})


async def _wrong(request: Request, error: Exception) -> Response:
    """Answer an error with a sentence: as JSON for the API, else as a page. Never a stack trace."""
    path: str = request.scope["path"]  # `request.url` raises for queries that are not UTF-8
    if isinstance(error, RefusalError):
        code = error.code
    elif isinstance(error, HTTPException):
        code = error.status_code
    else:
        code = 404 if isinstance(error, LookupError) else 503 if isinstance(error, OSError) else 400
    text = error.detail if isinstance(error, HTTPException) else str(error.args[0] if error.args else error)
    if code == 404 and isinstance(error, HTTPException):
        text = f"There is nothing at {path}."
    if path.startswith("/api/"):
        return answered({"schema": 1, "error": text}, code)
    inside = html(tag("h1", text, class_="wrong"), tag("p", tag("a", "All jobs", href="/")))
    return framed("holter", inside, code=code)
