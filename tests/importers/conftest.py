"""Where real traces are, and how a test imports one."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from holter.importers import import_paths
from holter.store import job
from holter.store.trial import Trial


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real traces."""
    path = Path(os.environ.get("HOLTER_DATA", "../shared/data"))
    if not (path / "traces").is_dir():
        pytest.skip(f"{path} is not here; HOLTER_DATA names the folder of real traces")
    return path


@pytest.fixture
def imported(tmp_path):
    """Import files or folders; returns the tables and the report."""

    def run(*paths: Path):
        number = len(list(tmp_path.glob("store/*")))
        folder = job.create(
            str(tmp_path / "store"), f"job{number}", command=[], interval_ms=500, rules=[], now_ns=0
        )
        report = import_paths(paths, folder)
        return Trial(folder), report

    return run


@pytest.fixture
def written(tmp_path):
    """Write a trace, of events or of raw bytes; returns its path."""

    def run(content, name: str = "trace.json", **header) -> Path:
        path = tmp_path / name
        if not isinstance(content, bytes):
            content = json.dumps({**header, "traceEvents": content}).encode()
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return run
