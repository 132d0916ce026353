"""System metrics of a job of any length, in bounded memory: tables of percentiles, and series in few buckets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.schema.table import Table

if TYPE_CHECKING:
    from holter.store.trial import Trial

SHARES = (0.5, 0.9, 0.95, 0.99)
MOST_ROWS = 8_000_000
"""More readings than this are looked at in part, unless all are asked for …"""
STRETCH_NS = 30_000_000_000
"""… in stretches so long, spread evenly over the time that is asked for."""


def percentiles(
    trial: Trial,
    *,
    start_ns: int | None = None,
    end_ns: int | None = None,
    by_device: bool = False,
    exact: bool = False,
) -> Table:
    """Return how each metric was spread, a row for each node and metric.

    Args:
        trial: The job.
        start_ns: Only readings at or after it, ns since the epoch.
        end_ns: Only readings before it.
        by_device: A row for each device; otherwise the readings of all devices are pooled.
        exact: Look at every reading of a job of any length.

    Returns:
        Columns node, metric, device, count, min, p50, p90, p95, p99, max, looked_at_pct. Below 100 the
        percentiles stand on so many percent of the readings; count, least and greatest always on all.
    """
    limits = ["NOT isnan(value)"]
    limits += [f"time >= {start_ns}"] if start_ns is not None else []
    limits += [f"time < {end_ns}"] if end_ns is not None else []
    device = "coalesce(device, '')" if by_device else "''"
    every = 1 if exact else max(1, -(-trial.rows("samples") // MOST_ROWS))
    ranges = {"start_ns": start_ns, "end_ns": end_ns}
    extremes = "count(*) AS count, min(value) AS min, max(value) AS max"
    shares = f"quantile_cont(value, {list(SHARES)}) AS shares"
    where = " AND ".join(limits)
    source = f"SELECT node, metric, {device} AS device, value FROM samples WHERE {where}"  # noqa: S608
    asked = f"{extremes}, {shares}" if every == 1 else extremes
    query = f"SELECT node, metric, device, {asked} FROM ({source}) GROUP BY ALL ORDER BY ALL"  # noqa: S608
    whole = trial.sql(query, **ranges)
    return whole
