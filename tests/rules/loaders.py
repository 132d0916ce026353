"""Batches that data-loader workers fetch."""

from __future__ import annotations

from tests.rules.tables import SECOND, START

from holter.schema.table import Table

# --- LoaderWorkerImbalance


def fetches(per_worker_s: list[float], *, count: int = 40) -> Table:
    rows = [
        {
            "time": START + i * SECOND,
            "duration": round(s * SECOND),
            "rank": 0,
            "worker": w,
            "phase": "fetch",
            "node": "n0",
        }
        for w, s in enumerate(per_worker_s)
        for i in range(count)
    ]
    return Table.of("spans", rows)
