"""Serves what the browser runs; an address names the files' state, so that it can be kept for good."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.responses import FileResponse
from starlette.routing import Route

from holter.dashboard.answers import RefusalError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

APP = Path(str(files("holter.pages").joinpath("app")))
_KINDS = {".js": "text/javascript", ".css": "text/css"}
_VENDOR = ("htm/preact/standalone.module.js", "uPlot.esm.js", "uPlot.css")


def routes() -> list[Route]:
    """Return the route of the files."""
    return [Route("/app/{state}/{name:path}", _file)]


def address(name: str = "") -> str:
    """Return the address of a file as it is now; a changed file has another one."""
    seen = sorted((str(path), path.stat().st_mtime_ns) for path in _files())
    state = hashlib.sha256(str(seen).encode()).hexdigest()[:12]
    return f"/app/{state}/{name}"


def complete() -> bool:
    """Whether the third-party files are there: without them pages are text and pictures."""
    return all((APP / "vendor" / name).is_file() for name in _VENDOR)


def _files() -> list[Path]:
    return [path for path in APP.rglob("*") if path.suffix in _KINDS and path.is_file()]


async def _file(request: Request) -> Response:
    name = request.path_params["name"]
    path = APP / name
    if path not in _files():
        raise RefusalError(f"there is no file {name!r}", 404)
    kept = {"cache-control": "public, max-age=31536000, immutable"}
    return FileResponse(path, media_type=_KINDS[path.suffix], headers=kept)
