"""Joins readings of several metrics of one node into snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


class MetricSeries(Protocol):
    """Readings of one metric of one device, in the order of time, ns."""

    @property
    def time(self) -> NDArray[np.int64]:
        """When."""

    @property
    def value(self) -> NDArray[np.float64]:
        """What."""


Place = tuple[str, str]
"""A node and its device."""
TOLERANCE_NS = 20_000_000
"""Readings this close belong to one snapshot."""


def moments(series: Mapping[Place, MetricSeries], node: str) -> NDArray[np.int64]:
    """Return when the snapshots of a node were taken: the first reading of each."""
    times = [s.time for (where, _), s in series.items() if where == node]
    if not times:
        return np.empty(0, dtype=np.int64)
    every = np.unique(np.concatenate(times))
    return np.asarray(every[np.concatenate([[True], np.diff(every) > TOLERANCE_NS])])


def matrix(series: Mapping[Place, MetricSeries], node: str, at: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return readings as devices by snapshots; NaN where a device has none."""
    rows = []
    for (where, _), one in sorted(series.items()):
        if where == node:
            row = np.full(len(at), np.nan)
            slot = np.searchsorted(at, one.time, side="right") - 1
            near = (slot >= 0) & (one.time - at[np.maximum(slot, 0)] <= TOLERANCE_NS)
            row[slot[near]] = one.value[near]
            rows.append(row)
    return np.array(rows).reshape(len(rows), len(at))


def any_above(readings: NDArray[np.float64], limit: float) -> NDArray[np.bool_]:
    """Return the snapshots in which some device is above a limit; absent readings are not."""
    return np.asarray((np.nan_to_num(readings, nan=-np.inf) > limit).any(axis=0))


def any_below(readings: NDArray[np.float64], limit: float) -> NDArray[np.bool_]:
    """Return the snapshots in which some device is below a limit; absent readings are not."""
    return np.asarray((np.nan_to_num(readings, nan=np.inf) < limit).any(axis=0))


def totals(
    both: NDArray[np.bool_], low: NDArray[np.bool_], before: Sequence[int] = ()
) -> tuple[int, int, int]:
    """Count snapshots that were bottlenecks, all, and those with a low GPU; `before`: the same of earlier."""
    bad, count, lows = (*before, 0, 0, 0)[:3]
    return bad + int(both.sum()), count + len(both), lows + int(low.sum())


def told(
    at: NDArray[np.int64],
    both: NDArray[np.bool_],
    seen: Sequence[int],
    **counts: NDArray[np.int64],
) -> dict[str, object]:
    """Return a summary of snapshots: counts, and the devices of the last bottlenecks.

    Args:
        at: When the new ones were.
        both: Which of them were bottlenecks.
        seen: What `totals` says of all that were judged.
        counts: Devices concerned in each of them.
    """
    where = np.flatnonzero(both)[-100:]
    snapshots = {
        str(int(at[i])): {name: int(count[i]) for name, count in counts.items()} for i in where.tolist()
    }
    bad, count, low = seen
    return {"low_gpu_utilization": low, "snapshots": count, "bottleneck_count": bad, "bottlenecks": snapshots}


def busiest(readings: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """Return for each snapshot the mean of the `k` devices with the highest readings."""
    if not len(readings):
        return np.zeros(readings.shape[1])
    readings = np.nan_to_num(readings, nan=0.0)
    k = max(1, min(k, len(readings)))
    if k < len(readings):
        readings = np.partition(readings, len(readings) - k, axis=0)[-k:]
    return np.asarray(readings.mean(axis=0))
