"""Each table of a job as one Parquet file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.report.exports import _tables

if TYPE_CHECKING:
    from pathlib import Path

    from holter.report.exports import ExportSelection
    from holter.store.trial import Trial

ABOUT = "each table as a Parquet file"
SUFFIX = ""
SHOW = "ls {output}"
NEEDS = _tables.NEEDS


def write(trial: Trial, chosen: ExportSelection, output: Path) -> int:
    """Write each table that has rows to `<table>.parquet`, sorted by time; returns how many rows."""
    return _tables.write(trial, chosen, output, "parquet", "FORMAT parquet, COMPRESSION zstd")
