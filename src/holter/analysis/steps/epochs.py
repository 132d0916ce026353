"""Computes the length of an epoch: the time between two starts of the training's data loader."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.schema.phases import ITERATOR_START, NEXT_BATCH

if TYPE_CHECKING:
    from holter.schema.table import Table


def epoch_s(loading: Table) -> float | None:
    """Return the median seconds of an epoch; None unless the main loader was started at least twice.

    The main loader is the one that gave most batches; of several ranks the lowest is looked at.

    Args:
        loading: Rows of table `spans` with phase `data_loading`; their value is the loader's number.
    """
    if not loading.rows:
        return None
    mine = loading.where(loading["rank"] == loading["rank"].min())
    batches = mine.where((mine["name"] == NEXT_BATCH) & ~np.isnan(mine["value"]))
    if not batches.rows:
        return None
    loaders, counts = np.unique(batches["value"], return_counts=True)
    main = loaders[counts.argmax()]
    starts = np.sort(mine["time"][(mine["name"] == ITERATOR_START) & (mine["value"] == main)])
    return float(np.median(np.diff(starts))) / 1e9 if len(starts) > 1 else None
