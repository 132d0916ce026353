"""The scripts and styles that the browser loads; their address names their state, so browsers cache them."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from pathlib import Path

APP = Path(str(files("holter.pages").joinpath("app")))
_KINDS = {".js": "text/javascript", ".css": "text/css"}
_VENDOR = ("htm/preact/standalone.module.js", "uPlot.esm.js", "uPlot.css")


def address(name: str = "") -> str:
    """Return the address of a file as it is now; a changed file has another one."""
    seen = sorted((str(path), path.stat().st_mtime_ns) for path in _files())
    state = hashlib.sha256(str(seen).encode()).hexdigest()[:12]
    return f"/app/{state}/{name}"


def complete() -> bool:
    """Whether the third-party files are there: without them pages are text and pictures."""
    return all((APP / "vendor" / name).is_file() for name in _VENDOR)


def found(name: str) -> tuple[Path, str] | None:
    """Return a file and its media type; None where the app has no such file."""
    path = APP / name
    return (path, _KINDS[path.suffix]) if path in _files() else None


def _files() -> list[Path]:
    return [path for path in APP.rglob("*") if path.suffix in _KINDS and path.is_file()]
