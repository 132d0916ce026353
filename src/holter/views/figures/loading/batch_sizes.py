"""Histogram of the number of samples in a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.verdict.evidence import counted
from holter.views.figure import Axis, Figure, Series
from holter.views.figures.loading._fetches import MISSING, fetches

if TYPE_CHECKING:
    from holter.views.reading import Reading

__all__ = ["MISSING", "draw"]
_MOST = 20


def draw(reading: Reading, *, rank: int | None = None) -> Figure | None:
    """Draw how often each size occurs; of more than twenty sizes their histogram."""
    size = fetches(reading, rank)["value"]
    sizes, counts = np.unique(size[np.isfinite(size)].astype(np.int64), return_counts=True)
    if not len(sizes):
        return None
    if len(sizes) == 1:
        return Figure(
            title="Sizes of batches",
            kind="constants",
            x=[],
            x_axis=Axis("samples in a batch"),
            y_axis=Axis("batches", "sample" if sizes[0] == 1 else "samples"),
            series=[Series("batch size", [float(sizes[0])])],
            note=f"All {counts[0]:,} batches." if counts[0] > 1 else "",
        )
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
