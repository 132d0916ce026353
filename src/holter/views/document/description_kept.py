"""The description of a long job that has ended, kept beside its tables: computed once, not at each look."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import holter
from holter.store.layout import DESCRIPTION, MANIFEST, PASSING
from holter.store.seal import opened, sealed
from holter.views.jobs import RUNNING

if TYPE_CHECKING:
    from holter.store.trial import Trial

WORTH = 300_000
"""A job with fewer rows than this is described as fast from them."""
_TABLES = ("samples", "spans", "steps", "operators", "kernels")


def read(trial: Trial) -> dict[str, Any] | None:
    """Return what this user kept of the job as it is now; None when there is nothing, or it is not that."""
    if not _ended(trial):
        return None
    try:
        data = opened(trial.folder.place.read(DESCRIPTION))
        kept = json.loads(data) if data is not None else {}
    except (OSError, ValueError, RecursionError):
        return None
    return kept["told"] if kept and kept["of"] == _state(trial) else None


def write(trial: Trial, told: dict[str, Any], *, worth: int = WORTH) -> None:
    """Keep the description of a job that has ended; where that cannot be, it is computed each time.

    Of a job of which something could not be read nothing is kept: next time it may be there.
    """
    if told["skipped"] or not _ended(trial) or sum(map(trial.rows, _TABLES)) < worth:
        return
    try:
        data = json.dumps({"of": _state(trial), "told": told}).encode()
        trial.folder.place.write(DESCRIPTION, sealed(data))
    except OSError:
        return  # a store, or a home, that this process may only read


def _ended(trial: Trial) -> bool:
    manifest = trial.manifest
    return bool(manifest.get("end")) and manifest.get("status") not in RUNNING


def _state(trial: Trial) -> str:
    """Return what changes when the job does, or what computes. What a verdict said of it changes nothing."""
    place, manifest = trial.folder.place, {**trial.manifest, "verdict": None}
    files = sorted(entry for entry in place.files() if entry.key not in {*PASSING, MANIFEST})
    return hashlib.sha256(repr((_code(), manifest, files)).encode()).hexdigest()


@cache
def _code() -> tuple[object, ...]:
    """Return what tells one holter from another: its version, and when a checkout's files were changed."""
    root = Path(holter.__file__).parent
    rooms = (root / room for room in ("analysis", "schema", "views"))
    newest = max(path.stat().st_mtime_ns for room in rooms for path in room.glob("*.py"))
    return holter.__version__, newest
