"""Real traces of torch.profiler as tables, where the data are there."""

from __future__ import annotations

import os
import tempfile
from functools import lru_cache
from pathlib import Path

import pytest

from holter.importers import import_paths
from holter.schema.table import Table
from holter.store.job import create
from holter.store.trial import Trial

DATA = Path(os.environ.get("HOLTER_DATA", "../shared/data"))
TABLES = (
    "kernels",
    "launches",
    "memory_operations",
    "syncs",
    "operators",
    "counters",
    "flows",
    "spans",
    "tracks",
)


def given(*parts: str) -> Path:
    """Return a file of the real data; skips the test where there is none."""
    path = DATA.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{path} is not here; HOLTER_DATA names the folder of real traces")
    return path


@lru_cache(maxsize=2)
def load(*paths: Path) -> dict[str, Table]:
    """Import traces, and return their tables."""
    with tempfile.TemporaryDirectory() as store:
        folder = create(store, "trace", command=[], interval_ms=500, rules=[], now_ns=0)
        import_paths(paths, folder)
        trial = Trial(folder)
        return {name: trial.table(name) for name in TABLES}
