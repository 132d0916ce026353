"""Computes statistics of each metric of each node, and counts readings by range."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.grouping import groups
from holter.schema.metrics import METRICS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.schema.table import Table


Range = tuple[float, float]

RANGES: tuple[Range, ...] = ((90, 100), (10, 90), (0, 10))
"""Full, in between, idle; percent."""
_PERCENTS = (50, 90, 95, 99)
_NO_STATISTICS = frozenset({"gpu.throttle_reasons"})
"""Bit masks have no percentiles."""


def utilization(samples: Table, *, by_device: bool = False) -> list[dict[str, Any]]:
    """Compute min, p50, p90, p95, p99, max of each metric of each node.

    Devices of one metric are pooled: the p95 of `gpu.util` is that of all readings of all the node's GPUs.
    What is read per process role is kept by role, since a trainer's memory and a worker's are two things.

    Args:
        samples: Table `samples`.
        by_device: Keep all devices apart.

    Returns:
        One mapping a series: node, metric, device ("" when pooled), unit, count, min … max.
        A metric that was never read has none.
    """
    rows = []
    for (node, metric, device), values in sorted(series(samples, by_device=by_device).items()):
        values = values[~np.isnan(values)]
        if metric in _NO_STATISTICS or not len(values):
            continue
        points = np.percentile(values, _PERCENTS)
        rows.append(
            {
                "node": node,
                "metric": metric,
                "device": device,
                "unit": METRICS[metric].unit if metric in METRICS else "",
                "count": len(values),
                "min": float(values.min()),
                **{f"p{percent}": float(point) for percent, point in zip(_PERCENTS, points, strict=True)},
                "max": float(values.max()),
            }
        )
    return rows


def between(samples: Table, start_ns: int | None, end_ns: int | None) -> Table:
    """Keep the rows whose time lies in [start, end)."""
    time = samples["time"]
    mask = np.ones(len(time), dtype=bool)
    if start_ns is not None:
        mask &= time >= start_ns
    if end_ns is not None:
        mask &= time < end_ns
    return samples if mask.all() else samples.where(mask)


def told_device(metric: str, device: str, *, by_device: bool) -> str:
    """Return the device name of a series; "" where devices are pooled."""
    return device if by_device or metric.startswith("proc.") else ""


def series(samples: Table, *, by_device: bool = False) -> dict[tuple[str, str, str], NDArray[Any]]:
    """Split table `samples` into (node, metric, device) → readings, in the order of the table."""
    found: dict[tuple[str, str, str], list[NDArray[np.int64]]] = {}
    for (node, metric, device), rows in groups(*(samples[n] for n in ("node", "metric", "device"))).items():
        found.setdefault((node, metric, told_device(metric, device, by_device=by_device)), []).append(rows)
    return {key: samples["value"][np.sort(np.concatenate(rows))] for key, rows in found.items()}


def in_ranges(values: NDArray[np.float64], ranges: tuple[Range, ...] = RANGES) -> list[int]:
    """Count the values in each range, both ends included. A value counts for the first range that fits.

    Raises:
        ValueError: A range ends before it begins.
    """
    taken = np.zeros(len(values), dtype=bool)
    counts = []
    for low, high in ranges:
        if not low <= high:
            raise ValueError(f"range ({low}, {high}) ends before it begins")
        inside = (values >= low) & (values <= high) & ~taken
        taken |= inside
        counts.append(int(inside.sum()))
    return counts
