"""The layout of a folder of smdebug's tensors: `collections/`, `index/`, `events/` and the end."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from holter.store.documents import Document

PARTS = ("collections", "index", "events")
END = "training_job_end.ts"
INDEX = re.compile(r"(\d{1,12})_(.+)\.json")
COLLECTIONS = re.compile(r"(.+)_collections\.json(?:\.json)?")


def is_smdebug(folder: Path) -> bool:
    """Return whether smdebug wrote a folder."""
    return (folder / "collections").is_dir() and not (folder / "job.json").exists()


def folders(path: Path) -> list[Path]:
    """Return the folders of smdebug's tensors that a path is or holds."""
    if is_smdebug(path):
        return [path]
    found = [one for one in path.rglob("collections") if any(one.rglob("*_collections.json*"))]
    return sorted(one.parent for one in found if is_smdebug(one.parent))


def collection_of(told: Document) -> dict[str, object]:
    """Return one of smdebug's collections as `tensors.json` holds it."""
    modes: Document = told.get("save_config") or {}
    schedule = {
        str(mode).lower(): {
            "interval": config.get("save_interval"),
            "start": config.get("start_step"),
            "end": config.get("end_step"),
            "steps": config.get("save_steps"),
        }
        for mode, config in modes.items()
        if isinstance(config, dict) and config
    }
    form = told.get("reduction_config") or {}
    return {
        "include_regex": list(told.get("include_regex") or []),
        "roles": [],
        "schedule": schedule,
        "statistics": [],
        "histogram": bool(told.get("save_histogram")),
        "raw": bool(form.get("save_raw_tensor")),
        "tensors": sorted(map(str, told.get("tensor_names") or [])),
    }
