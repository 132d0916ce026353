"""How long it takes to build a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.views.figures._histogram import histogram
from holter.views.figures.loading.loader_workers import MISSING

if TYPE_CHECKING:
    from holter.views.figures import Figure, Reading

__all__ = ["MISSING", "draw"]


def draw(reading: Reading, *, rank: int | None = None) -> Figure | None:
    """Draw how often each duration of a fetch occurs, its collation within."""
    spans = reading.loading.spans
    if reading.window is not None:
        spans = spans.where((spans["time"] >= reading.since) & (spans["time"] < reading.until))
    mine = spans["phase"] == "fetch"
    if rank is not None:
        mine &= spans["rank"] == rank
    took = spans["duration"][mine] / 1e6
    return histogram("Time to build a batch", np.asarray(took), "batches")
