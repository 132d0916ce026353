"""Reduces many values to the points that fit on a chart; a bucket without values is a gap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.views.reading import Reading

Values = list[float | None]


def buckets(position: NDArray[Any], low: float, high: float, count: int) -> NDArray[np.int64]:
    """Return for each position which of `count` equal stretches from `low` to `high` it lies in."""
    span = max(high - low, 1e-12)
    # What lies on an edge is not to fall before it because 0.29 * 100 is a little less than 29.
    found = np.floor((position - low) / span * count + 1e-9).astype(np.int64)
    return np.clip(found, 0, count - 1)


def middles(low: float, high: float, count: int) -> list[float]:
    """Return the middle of each stretch."""
    return [low + (high - low) * (at + 0.5) / count for at in range(count)]


def mean(bucket: NDArray[np.int64], values: NDArray[Any], count: int) -> Values:
    """Return the mean in each bucket; None where there is nothing."""
    known = ~np.isnan(values)
    sums = np.bincount(bucket[known], values[known], count)
    sizes = np.bincount(bucket[known], minlength=count)
    return [float(s / n) if n else None for s, n in zip(sums, sizes, strict=True)]


def quantiles(
    bucket: NDArray[np.int64], values: NDArray[Any], count: int, shares: tuple[float, ...]
) -> list[Values]:
    """Return for each share (0 to 1) its quantile in each bucket; None where there is nothing."""
    order = np.lexsort((values, bucket))
    kept = order[~np.isnan(values[order])]
    starts = np.searchsorted(bucket[kept], np.arange(count + 1))
    ordered = values[kept]
    found: list[Values] = []
    for share in shares:
        sizes = np.diff(starts)
        at = starts[:-1] + np.round(share * np.maximum(sizes - 1, 0)).astype(np.int64)
        found.append([float(ordered[i]) if n else None for i, n in zip(at, sizes, strict=True)])
    return found


def over_time(
    reading: Reading, metrics: tuple[str, ...], by: str, *, where: str = ""
) -> list[dict[str, Any]]:
    """Return samples of some metrics in stretches of what is drawn: group, bucket, mean, low, high.

    Args:
        reading: The job.
        metrics: Names of metrics.
        by: SQL for what one series is of, as `metric` or `node || ' ' || device`.
        where: One more condition.
    """
    span = max(reading.until - reading.since, 1)
    asked = ", ".join(f"'{metric}'" for metric in metrics)
    inside = "" if reading.window is None else f"AND time >= {reading.since} AND time < {reading.until} "
    more = f"AND ({where}) " if where else ""
    if reading.node is not None:
        quoted = reading.node.replace("'", "''")
        more += f"AND node = '{quoted}' "
    fine = (span * reading.width >> 62) + 1  # ns; more than one for months, and for clocks that are years off
    since = f"least(greatest(time - {reading.since}, 0), {span}) // {fine}"
    table = reading.trial.sql(
        f"SELECT {by} AS series, least({since} * {reading.width} // {max(span // fine, 1)}, "  # noqa: S608
        f"{reading.width - 1}) AS bucket, avg(value) AS mean, min(value) AS low, max(value) AS high "
        f"FROM samples WHERE metric IN ({asked}) AND NOT isnan(value) {inside}{more}"
        "GROUP BY ALL ORDER BY ALL",
        **reading.bounds,
    )
    return list(table.to_rows())


def spread(rows: list[dict[str, Any]], what: str, reading: Reading) -> Values:
    """Lay rows of one series out over its buckets; None where there was no sample.

    A sample stands for the interval before it, which holds several buckets when one looks closely.
    """
    span = max(reading.until - reading.since, 1)
    reach = int(1.5 * reading.interval_ns * reading.width / span)
    values: Values = [None] * reading.width
    last = -1
    for row in rows:
        at = int(row["bucket"])
        for place in range(max(last + 1, at - reach), at + 1):
            values[place] = float(row[what])
        last = at
    return values


def seconds(reading: Reading) -> list[float]:
    """Return the middles of the stretches of what is drawn, seconds since the job's start."""
    return middles(
        (reading.since - reading.start) / 1e9, (reading.until - reading.start) / 1e9, reading.width
    )
