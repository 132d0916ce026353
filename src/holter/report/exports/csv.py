"""Each table of a job as one CSV file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.report.exports import _tables

if TYPE_CHECKING:
    from pathlib import Path

    from holter.report.exports import ExportSelection
    from holter.store.trial import Trial

ABOUT = "each table as a CSV file"
SUFFIX = ""
SHOW = "ls {output}"
NEEDS = _tables.NEEDS
_TEXT = (
    "CASE WHEN regexp_matches({column}, '^[=+\\-@\\t\\r\\n]') AND TRY_CAST({column} AS DOUBLE) IS NULL "
    "THEN chr(39) || {column} ELSE {column} END"
)
"""Spreadsheets compute a text that begins like a formula, and names come from strangers' trainings: an
apostrophe before it makes it a text. Numbers stay numbers."""


def write(trial: Trial, chosen: ExportSelection, output: Path) -> int:
    """Write each table that has rows to `<table>.csv`, with a line of names; returns how many rows."""
    return _tables.write(trial, chosen, output, "csv", "FORMAT csv, HEADER", text=_TEXT)
