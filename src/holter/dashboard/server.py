"""Puts the pages, the API and the gate together, and serves them until it is interrupted."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from holter.dashboard import api, pages
from holter.dashboard.gate import Gate
from holter.dashboard.live import Live
from holter.dashboard.stores import Stores

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from starlette.requests import Request
    from starlette.types import ASGIApp

_STATIC = {"live.js": "text/javascript", "live.css": "text/css"}


def application(stores: Sequence[str], token: str, hosts: Collection[str] = ()) -> ASGIApp:
    """Return the dashboard of some stores.

    Args:
        stores: Their URLs or folders.
        token: Who asks must know it.
        hosts: Names under which it may be asked; any when there are none.
    """
    served = Stores(stores)
    app = Starlette(
        routes=[
            *pages.routes(served),
            *api.routes(served),
            Route("/events", Live(served).events),
            Route("/static/{name}", _static),
        ],
        exception_handlers={
            api.RefusalError: _wrong,
            LookupError: _wrong,
            OSError: _wrong,
            ValueError: _wrong,
            HTTPException: _wrong,
        },
    )
    return Gate(app, token, hosts)


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _STATIC:
        raise api.RefusalError(f"there is no file {name!r}", 404)
    text = files("holter.dashboard").joinpath("static", name).read_text(encoding="utf-8")
    return Response(text, media_type=_STATIC[name])


async def _wrong(request: Request, error: Exception) -> Response:
    """Say in a sentence what is wrong: as JSON to programs, as a page to people. Never a stack trace."""
    if isinstance(error, api.RefusalError):
        code = error.code
    elif isinstance(error, HTTPException):
        code = error.status_code
    else:
        code = 404 if isinstance(error, LookupError) else 503 if isinstance(error, OSError) else 400
    text = error.detail if isinstance(error, HTTPException) else str(error.args[0] if error.args else error)
    if code == 404 and isinstance(error, HTTPException):
        text = f"There is nothing at {request.url.path}."
    if request.url.path.startswith("/api/"):
        return api.answered({"schema": 1, "error": text}, code)
    return pages.refused(text, code)
