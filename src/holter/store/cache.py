"""A cache of results that are computed from a job, in a private folder of the user.

Reading a job never writes into a store, and no reader trusts a result that another user computed. Without a
usable folder there is no cache.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from typing import TYPE_CHECKING

from holter.store.layout import parse_part
from holter.store.parquet.queries import pattern
from holter.store.place import LocalPlace, user_cache

if TYPE_CHECKING:
    from pathlib import Path

    from holter.store.job import JobFolder

MOST_BYTES = 2 << 30
"""Size of the cache. A new entry removes the least recently used ones beyond it."""
_VERSION = 1
"""Raise this number when a kept result changes its meaning or its form."""


def root() -> Path:
    """Return the folder of all entries; raises `OSError` without a path that DuckDB reads as it is."""
    path = user_cache() / "computed"
    if pattern(path) != str(path):
        raise OSError(f"{path} contains a wildcard")
    return path


def entry(folder: JobFolder, *, make: bool = False, most_bytes: int = MOST_BYTES) -> LocalPlace | None:
    """Return the place for results computed from a job with its present data files.

    `make` creates a missing entry, and removes the job's earlier one and the least recently used ones.
    Without an entry, or a usable cache folder, there is no place.
    """
    try:
        found = root() / _name(folder)
        if make and not found.is_dir():
            found.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check(found.parent)
            _trim(found, most_bytes)
            found.mkdir(mode=0o700, exist_ok=True)
        _check(found.parent)
        os.utime(found)
    except OSError:
        return None
    return LocalPlace(found)


def _name(folder: JobFolder) -> str:
    manifest = folder.manifest()
    identity = [folder.url, *(manifest.get(key) for key in ("id", "created", "start"))]
    state = sorted(one for one in folder.place.files() if parse_part(one.key) is not None)
    job, files = (hashlib.sha256(repr(what).encode()).hexdigest()[:24] for what in (identity, state))
    return f"{job}-{files}-{_VERSION}"


def _check(path: Path) -> None:
    status = path.stat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise PermissionError(f"other users can write to {path}")


def _trim(new: Path, most_bytes: int) -> None:
    """Remove the job's earlier entries, then the least recently used entries of all jobs."""
    used: list[tuple[int, Path]] = []
    for path in new.parent.iterdir():
        if path.name.partition("-")[0] == new.name.partition("-")[0]:
            shutil.rmtree(path, ignore_errors=True)
        else:
            used.append((path.stat().st_mtime_ns, path))
    left = most_bytes
    for _, path in sorted(used, reverse=True):
        left -= sum(one.stat().st_size for one in path.rglob("*") if one.is_file())
        if left < 0:
            shutil.rmtree(path, ignore_errors=True)
