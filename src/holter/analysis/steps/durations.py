"""Computes statistics of step durations, and the length of an epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.steps.outliers import outliers
from holter.analysis.steps.warmup import by_rank, steady
from holter.schema.phases import ITERATOR_START, NEXT_BATCH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from holter.analysis.steps.outliers import Outlier
    from holter.schema.table import Table

MS = 1_000_000
_PERCENT = (50, 90, 95, 99)


def step_statistics(
    steps: Table, mask: NDArray[Any] | None = None, *, found: Sequence[Outlier] | None = None
) -> dict[str, float | int]:
    """Describe step durations; empty when there are no steps.

    Args:
        steps: Table `steps`. Ranks step together, so `count` and `warmup` are those of the rank with most.
        mask: Rows that are steady state; found out when absent.
        found: Their outliers; looked for when absent.

    Returns:
        count, warmup (not steady), mean_ms, p50_ms, p90_ms, p95_ms, p99_ms, max_ms of the steady ones,
        per_second, outliers.
    """
    if not steps.rows:
        return {}
    mask = steady(steps) if mask is None else mask
    ranks = list(by_rank(steps))
    used = steps.where(mask)
    statistics: dict[str, float | int] = {
        "count": max(len(rows) for rows in ranks),
        "warmup": max(int((~mask[rows]).sum()) for rows in ranks),
    }
    if used.rows:
        duration = used["duration"] / MS
        statistics["mean_ms"] = float(duration.mean())
        for percent, value in zip(_PERCENT, np.percentile(duration, _PERCENT).tolist(), strict=True):
            statistics[f"p{percent}_ms"] = value
        statistics["max_ms"] = float(duration.max())
        statistics["per_second"] = 1000.0 / statistics["mean_ms"]
        statistics["outliers"] = len({one.step for one in (outliers(used) if found is None else found)})
    return statistics


def epoch_s(loading: Table) -> float | None:
    """Return the median seconds between two starts of the main loader; None with fewer than two.

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
