"""System metrics of a job of any length, in bounded memory: percentiles, and series in few stretches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.rules._parameters import nearest
from holter.schema.table import Table
from holter.store.parquet import literal

if TYPE_CHECKING:
    from holter.store.trial import Trial

SHARES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
MOST_ROWS = 4_000_000
"""Of more readings than this the percentiles stand on a part, unless all are asked for …"""
STRETCH_NS = 30_000_000_000
"""… in stretches so long, spread evenly over the job."""


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
        exact: Let percentiles of a long job, too, stand on every reading.

    Returns:
        Columns node, metric, device, count, min, p50, p90, p95, p99, max, looked_at_pct. Below 100 the
        percentiles stand on about so many percent of the readings, those of stretches spread over the job;
        count, least and greatest always on all.
    """
    every = 1 if exact else max(1, -(-trial.rows("samples") // MOST_ROWS))
    began = int(trial.manifest.get("start") or 0)
    part = f" FILTER ((time - {began}) // {STRETCH_NS} % {every} = 0)" if every > 1 else ""
    device = "coalesce(device, '')" if by_device else "''"
    query = (
        f"SELECT node, metric, {device} AS device, count(*) AS count, min(value) AS min, "  # noqa: S608
        f"quantile_cont(value, {list(SHARES.values())}){part} AS shares, max(value) AS max "
        f"FROM samples WHERE NOT isnan(value){_between(start_ns, end_ns)} GROUP BY ALL ORDER BY ALL"
    )
    listed = ", ".join(f"shares[{at}] AS {name}" for at, name in enumerate(SHARES, 1))
    chosen = f"SELECT node, metric, device, count, min, {listed}, max FROM ({query})"  # noqa: S608
    found = trial.sql(chosen, start_ns=start_ns, end_ns=end_ns)
    return Table({**found.columns, "looked_at_pct": np.full(found.rows, 100.0 / every)})


def downsample(
    trial: Trial,
    metric: str,
    *,
    node: str | None = None,
    device: str | None = None,
    buckets: int = 2000,
    start_ns: int | None = None,
    end_ns: int | None = None,
) -> Table:
    """Return a metric in equal stretches of time; those without a reading are left out.

    Args:
        trial: The job.
        metric: Name of the metric.
        node: Of this node only.
        device: Of this device only; readings of several count together.
        buckets: How many stretches the time that is asked for has.
        start_ns: Begin of that time, ns since the epoch; by default the first reading.
        end_ns: End of it, left out; by default just after the last reading.

    Returns:
        Columns time (begin of the stretch, ns since the epoch), count, min, mean, max; in order of time.

    Raises:
        ValueError: The job has no reading of such a metric, node or device, or `buckets` is below 1.
    """
    if buckets < 1:
        raise ValueError(f"buckets is {buckets}; valid: 1 or more")
    given = {"metric": metric, "node": node, "device": device}
    same = "".join(f" AND {name} = {literal(value)}" for name, value in given.items() if value is not None)
    ranges = {"start_ns": start_ns, "end_ns": end_ns}
    where = f"NOT isnan(value){same}{_between(start_ns, end_ns)}"
    asked = f"SELECT min(time) AS a, max(time) AS b, count(*) AS n FROM samples WHERE {where}"  # noqa: S608
    span = trial.sql(asked, **ranges)
    if not span["n"][0]:
        known = trial.sql("SELECT DISTINCT metric FROM samples")["metric"].tolist()
        what = ", ".join(f"{name} {value!r}" for name, value in given.items() if value is not None)
        near = None if metric in known else nearest(metric, known)
        raise ValueError(f"no reading of {what}" + (f"; did you mean {near!r}?" if near else ""))
    first = int(span["a"][0]) if start_ns is None else start_ns
    length = max(1, (int(span["b"][0]) + 1 if end_ns is None else end_ns) - first)
    query = (
        f"SELECT (time - {first})::HUGEINT * {buckets} // {length} AS bucket, count(*) AS count, "  # noqa: S608
        f"min(value) AS min, avg(value) AS mean, max(value) AS max FROM samples WHERE {where} "
        "GROUP BY ALL ORDER BY ALL"
    )
    time = f"({first} + bucket * {length} // {buckets})::BIGINT AS time"
    return trial.sql(f"SELECT {time}, count, min, mean, max FROM ({query}) ORDER BY time", **ranges)  # noqa: S608


def _between(start_ns: int | None, end_ns: int | None) -> str:
    after = "" if start_ns is None else f" AND time >= {int(start_ns)}"
    return after + ("" if end_ns is None else f" AND time < {int(end_ns)}")
