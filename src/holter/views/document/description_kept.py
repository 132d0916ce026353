"""Keeps the description of a long job that has ended in the user's cache, so it is computed once."""

from __future__ import annotations

import functools
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, cast

import holter
from holter.store import cache
from holter.store.layout import CONTROL, MANIFEST
from holter.views.jobs import RUNNING

if TYPE_CHECKING:
    from holter.store.trial import Trial
    from holter.views.document.types import Description

WORTH = 300_000
"""A job with fewer rows than this is described as fast from them."""
_FILE = "description.json"
_DESCRIBED = ("verdict", "usage", "step_course")
"""What the end of a job writes into its manifest once the job is described."""
_TABLES = ("samples", "spans", "steps", "operators", "kernels")


def read(trial: Trial) -> Description | None:
    """Return the kept description of the job in its present state; None without one."""
    if not _ended(trial):
        return None
    try:
        place = cache.entry(trial.folder)
        kept = {} if place is None else json.loads(place.read(_FILE))
    except (OSError, ValueError, RecursionError):
        return None
    return cast("Description", kept["told"]) if kept and kept["of"] == _state(trial) else None


def write(trial: Trial, told: Description, *, worth: int = WORTH) -> None:
    """Keep the description of a job that has ended and whose files could all be read.

    Without a cache, the description is computed each time.
    """
    if told["skipped"] or not _ended(trial) or sum(map(trial.rows, _TABLES)) < worth:
        return
    try:
        place = cache.entry(trial.folder, make=True)
        if place is not None:
            place.write(_FILE, json.dumps({"of": _state(trial), "told": told}).encode())
    except OSError:
        return


def _ended(trial: Trial) -> bool:
    manifest = trial.manifest
    return bool(manifest.get("end")) and manifest.get("status") not in RUNNING


def _state(trial: Trial) -> str:
    """Return a digest of the job and of the code, without what the manifest has from a description."""
    place = trial.folder.place
    manifest = {name: value for name, value in trial.manifest.items() if name not in _DESCRIBED}
    files = sorted(entry for entry in place.files() if entry.key not in {CONTROL, MANIFEST})
    return hashlib.sha256(repr((_code(), manifest, files)).encode()).hexdigest()


@functools.cache
def _code() -> tuple[object, ...]:
    """Return the version of holter, and the time of the last change in a checkout."""
    root = Path(holter.__file__).parent
    packages = (root / name for name in ("analysis", "schema", "views"))
    newest = max(path.stat().st_mtime_ns for package in packages for path in package.rglob("*.py"))
    return holter.__version__, newest
