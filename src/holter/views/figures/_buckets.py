"""Reduces many values to the points that fit on a chart; a bucket without values is a gap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from holter.store.parquet.queries import literal, literals
from holter.views.figure import Axis, Figure, Series

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from holter.views.reading import Reading

Values = list[float | None]
NO_PHASES = (
    "No phases of steps were seen. Loops that no adapter knows are marked with `with holter.step():`; "
    "imported traces have none."
)


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


class Bucket(NamedTuple):
    """The samples of one series in one stretch of time."""

    at: int
    mean: float
    low: float
    high: float


def of_ranks(reading: Reading, rank: int | None) -> str:
    """Say of which ranks a chart shows the mean; empty for a job with one rank."""
    if len(reading.description["ranks"]) < 2:
        return ""
    return "Mean of all ranks." if rank is None else f"Rank {rank}."


def over_time(
    reading: Reading, metrics: Iterable[str], by: str, *, where: str = "true"
) -> dict[str, list[Bucket]]:
    """Return samples of some metrics in stretches of the window, by series.

    `by` is the SQL that identifies a series, such as `metric` or `node || ' ' || device`.
    """
    span = max(reading.until - reading.since, 1)
    if reading.node is not None:
        where += f" AND node = {literal(reading.node)}"
    fine = (span * reading.width >> 62) + 1  # ns; more than one for months, and for clocks that are years off
    since = f"least(greatest(time - {reading.since}, 0), {span}) // {fine}"
    table = reading.trial.sql(
        f"SELECT {by} AS series, least({since} * {reading.width} // {max(span // fine, 1)}, "  # noqa: S608
        f"{reading.width - 1}) AS bucket, avg(value) AS mean, min(value) AS low, max(value) AS high "
        f"FROM samples WHERE metric IN ({literals(metrics)}) AND NOT isnan(value) AND {where} "
        f"AND {reading.inside} GROUP BY ALL ORDER BY ALL",
        **reading.bounds,
    )
    found: dict[str, list[Bucket]] = {}
    for name, at, *values in zip(*(table[column].tolist() for column in table.names), strict=True):
        found.setdefault(str(name), []).append(Bucket(at, *values))
    return found


def line(reading: Reading, name: str, rows: Iterable[Bucket], *, banded: bool = True) -> Series:
    """Return the means of one series with their band; None where there was no sample.

    A sample stands for the interval before it, which covers several buckets of a short window.
    """
    span = max(reading.until - reading.since, 1)
    reach = int(1.5 * reading.interval_ns * reading.width / span)
    mean: Values = [None] * reading.width
    low, high = mean.copy(), mean.copy()
    last = -1
    for row in rows:
        places = slice(max(last + 1, row.at - reach), row.at + 1)
        count = places.stop - places.start
        mean[places], low[places], high[places] = [row.mean] * count, [row.low] * count, [row.high] * count
        last = row.at
    return Series(name, mean, low, high) if banded else Series(name, mean)


def over_seconds(reading: Reading, title: str, y_axis: Axis, series: list[Series], note: str = "") -> Figure:
    """Draw series, such as those of `line`, over the window."""
    return Figure(
        title=title,
        kind="lines",
        x=seconds(reading),
        x_axis=Axis("time since the start", "s"),
        y_axis=y_axis,
        series=series,
        note=note,
    )


def seconds(reading: Reading) -> list[float]:
    """Return the middles of the stretches of the window, seconds since the job's start."""
    return middles(
        (reading.since - reading.start) / 1e9, (reading.until - reading.start) / 1e9, reading.width
    )
