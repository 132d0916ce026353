"""Read an exported trace back by importing it."""

from __future__ import annotations

import json

from holter.importers import import_paths
from holter.store.job import create
from holter.store.trial import Trial

EVENT_TABLES = ("kernels", "launches", "memory_operations", "syncs", "operators", "counters", "flows")


def rows(trial, table, where=None):
    """Return the rows of a table as a sorted list, but what a trace does not carry."""
    found = []
    for row in trial.table(table, where=where).to_rows():
        for name in ("node", "step", "process"):
            row.pop(name, None)
        if row.get("detail"):
            row["detail"] = json.loads(row["detail"])
        found.append(row)
    return sorted(found, key=repr)


def back(path, where):
    """Import an exported file into a job of its own."""
    folder = create(str(where), "again", command=[], interval_ms=500, rules=[], now_ns=1)
    report = import_paths([path], folder)
    assert not any(report.skipped.values()), report.skipped
    return Trial(folder)
