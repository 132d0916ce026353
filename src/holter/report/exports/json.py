"""Exports a job as one JSON document, with one line per row of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holter.report.exports import _tables, opened
from holter.schema.tables import SCHEMA_VERSION

if TYPE_CHECKING:
    from pathlib import Path

    from holter.report.exports import ExportSelection
    from holter.store.trial import Trial

ABOUT = "the job, its nodes and all tables as one JSON document"
SUFFIX = ".json"
SHOW = "jq .job {output}"
NEEDS = _tables.NEEDS


def write(trial: Trial, chosen: ExportSelection, output: Path) -> int:
    """Write a document `{"schema", "job", "nodes", "tables": {name: [row, …]}}`; returns how many rows.

    Rows are in the order of time. Numbers that are not finite are null.

    Raises:
        OSError: The file cannot be written.
    """
    encode = msgspec.json.Encoder().encode
    written = 0
    with opened(output) as file:
        head = {"schema": SCHEMA_VERSION, "job": trial.manifest, "nodes": trial.nodes}
        file.write(encode(head)[:-1] + b',\n"tables":{')
        for number, name in enumerate(_tables.EXPORTED):
            file.write((b",\n" if number else b"\n") + encode(name) + b":[")
            separator = b"\n"
            for tables in chosen.stretches(trial, {name: None}):
                for row in tables[name].to_rows():
                    file.write(separator + encode(row))
                    separator = b",\n"
                    written += 1
            file.write(b"]")
        file.write(b"\n}}\n")
    return written
