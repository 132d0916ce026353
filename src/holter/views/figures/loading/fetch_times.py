"""Histogram of the time to build a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.views.figures._histogram import histogram
from holter.views.figures.loading._fetches import MISSING, fetches

if TYPE_CHECKING:
    from holter.views.figure import Figure
    from holter.views.reading import Reading

__all__ = ["MISSING", "draw"]


def draw(reading: Reading, *, rank: int | None = None) -> Figure | None:
    """Draw how often each duration of a fetch occurs, its collation within."""
    took = fetches(reading, rank)["duration"] / 1e6
    return histogram("Time to build a batch", np.asarray(took), "batches")
