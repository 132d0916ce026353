"""Divides a job's time into ranges with about equally many rows, from the footers of its files."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holter.store.trial import Trial


def stretches(
    trial: Trial,
    tables: Iterable[str],
    rows: int,
    *,
    start_ns: int | None = None,
    end_ns: int | None = None,
) -> list[tuple[int, int]]:
    """Return ranges of time without gaps between them, each with about `rows` rows of all tables together.

    Only footers are read: within a group of rows of a file the times count as evenly spread.
    """
    groups = [group for table in tables for group in trial.groups(table)]
    if not groups:
        return []
    first, last, count = (np.array(column) for column in zip(*groups, strict=True))
    start = int(first.min()) if start_ns is None else max(start_ns, int(first.min()))
    end = int(last.max()) + 1 if end_ns is None else min(end_ns, int(last.max()) + 1)
    if start >= end:
        return []
    # Rows before each moment at which a group begins or ends. Relative: floats cannot hold the epoch's ns.
    origin = int(first.min())
    begins, ends = (first - origin).astype(np.float64), (last - origin + 1).astype(np.float64)
    moments = np.unique(np.concatenate([begins, ends]))
    rate = np.zeros(len(moments))
    np.add.at(rate, np.searchsorted(moments, begins), count / (ends - begins))
    np.add.at(rate, np.searchsorted(moments, ends), -count / (ends - begins))
    before = np.concatenate([[0.0], np.cumsum(np.cumsum(rate)[:-1] * np.diff(moments))])
    low, high = np.interp([start - origin, end - origin], moments, before)
    number = max(1, round((high - low) / rows))
    cuts = np.interp(np.linspace(low, high, number + 1)[1:-1], before, moments)
    inner = sorted({int(cut) + origin for cut in cuts.tolist()})
    edges = [start, *(cut for cut in inner if start < cut < end), end]
    return list(pairwise(edges))
