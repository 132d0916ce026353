"""Readings of the device memory allocator."""

from __future__ import annotations

import numpy as np
from tests.rules.tables import GIB, SECOND, START

from holter.schema.table import Table

TOTAL = 80.0 * GIB


def allocator(reserved, allocated, *, steps=100, rank=0, **more):
    figures = {"cuda.reserved_peak": np.full(steps, reserved * TOTAL), "cuda.total": TOTAL}
    more = {f"cuda.{name}": value for name, value in more.items()}
    return cuda(figures | {"cuda.allocated_peak": np.asarray(allocated) * TOTAL} | more, rank=rank)


def allocated(values, **more):
    return cuda({"cuda.allocated": np.asarray(values, dtype=float), "cuda.total": TOTAL}, **more)


def cuda(values, *, rank=0, every_s=1.0, first=0):
    """Scalars of PyTorch's allocator: name → a value for each step."""
    count = max(np.size(v) for v in values.values())
    rows = [
        {
            "time": START + round((first + i + 1) * every_s * SECOND),
            "rank": rank,
            "step": first + i,
            "mode": "train",
            "node": "n0",
            "name": name,
            "value": float(np.broadcast_to(v, count)[i]),
        }
        for name, v in values.items()
        for i in range(count)
    ]
    return Table.of("scalars", rows)
