"""How many samples batches have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.verdict.evidence import counted
from holter.views.figures import Axis, Figure, Series
from holter.views.figures.loading.loader_workers import MISSING

if TYPE_CHECKING:
    from holter.views.figures import Reading

__all__ = ["MISSING", "draw"]
_MOST = 20


def draw(reading: Reading, *, rank: int | None = None) -> Figure | None:
    """Draw how often each size occurs; of more than twenty sizes their histogram."""
    spans = reading.loading.spans
    if reading.window is not None:
        spans = spans.where((spans["time"] >= reading.since) & (spans["time"] < reading.until))
    mine = (spans["phase"] == "fetch") & np.isfinite(spans["value"])
    if rank is not None:
        mine &= spans["rank"] == rank
    sizes, counts = np.unique(spans["value"][mine].astype(np.int64), return_counts=True)
    if not len(sizes):
        return None
    if len(sizes) <= _MOST:
        x: list[object] = [counted(size, "sample") for size in sizes]
        values = counts.astype(float).tolist()
    else:
        found, edges = np.histogram(sizes, bins=40, weights=counts)
        x, values = edges.tolist(), found.tolist()
    return Figure(
        title="Sizes of batches",
        kind="bars",
        x=x,
        x_axis=Axis("samples in a batch"),
        y_axis=Axis("batches"),
        series=[Series("batches", values)],
    )
