"""How many bytes a row of each table takes: in files as they come, and after compaction.

Without arguments for a generated job of two hours and 8 ranks; else for the jobs at the URLs given.
"""

from __future__ import annotations

import sys
import tempfile
from typing import TYPE_CHECKING

from generate import Training, generate
from machine import described

from holter.schema.tables import TABLES
from holter.store import job
from holter.store.trial import Trial

if TYPE_CHECKING:
    from holter.store.job import JobFolder

TARGETS = {"spans": 8.0, "samples": 2.0}


def sizes(folder: JobFolder) -> dict[str, tuple[int, int, float]]:
    """Return for each table that has rows its files, its rows, and its bytes per row."""
    trial = Trial(folder)
    found = {}
    for table in TABLES:
        entries = folder.place.files(table)
        rows = int(trial.sql(f"SELECT count(*) AS n FROM {table}")["n"][0])
        if rows:
            found[table] = (len(entries), rows, sum(entry.size for entry in entries) / rows)
    return found


def main() -> None:
    """Print one table of sizes for each job."""
    if len(sys.argv) > 1:
        for url in sys.argv[1:]:
            _print(url, {"": sizes(job.at(url))})
        return
    with tempfile.TemporaryDirectory() as store:
        fresh = Training(hours=2, chunk_s=60, compacted=False)
        small = Training(hours=2, chunk_s=60)
        by_kind = {
            "as they come": sizes(generate(store, "fresh", fresh)),
            "compacted": sizes(generate(store, "compacted", small)),
        }
    _print(f"{described()}\n\nGenerated: 2 h, 8 ranks, 96 cores, 8 GPUs at 500 ms", by_kind)


def _print(title: str, by_kind: dict[str, dict[str, tuple[int, int, float]]]) -> None:
    print(f"{title}\n")
    print("| table | files | | rows | bytes a row | target |\n|---|---|---|---|---|---|")
    for table in TABLES:
        for kind, tables in by_kind.items():
            if table in tables:
                files, rows, bytes_ = tables[table]
                target = f"≤ {TARGETS[table]:g}" if table in TARGETS else ""
                print(f"| {table} | {files} | {kind} | {rows} | {bytes_:.2f} | {target} |")


if __name__ == "__main__":
    main()
