"""Opens the place that a URL names: a folder or an object store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from holter.store.place import LocalPlace

if TYPE_CHECKING:
    from holter.store.place import Place


def place(url: str) -> Place:
    """Open the place of a URL: a path, `file://…`, or an object store's `s3://`, `gs://`, `az://`, `memory://`."""
    scheme = urlsplit(url).scheme
    if scheme in ("", "file") or len(scheme) == 1:
        return LocalPlace(Path(unquote(urlsplit(url).path) if scheme == "file" else url))
    from holter.store.objects import ObjectPlace  # an object store's client is loaded only when it is used

    return ObjectPlace.open(url)
