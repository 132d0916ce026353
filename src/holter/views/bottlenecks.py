"""Where a job was held up: GPUs idle while cores were full or waited for storage, and steps far too long."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from holter.analysis.grouping import groups
from holter.analysis.running import percent, sums
from holter.analysis.snapshots import matrix, moments
from holter.schema.metrics import DEFAULT_INTERVAL_MS
from holter.store.parquet import literal
from holter.views.active_then import LONGEST_NS
from holter.views.part import Part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from holter.schema.table import Table
    from holter.store.trial import Trial

MOST = 200
"""Stretches that are told: the longest."""
_TOP = 3
_ROWS = 1_000_000
"""Samples that are looked at together."""
_PHASES = "worker = -1 AND phase NOT IN ('step', 'scalar', 'stack')"
_METRICS = ("gpu.util", "cpu.core.util", "cpu.core.iowait")


class _Series(NamedTuple):
    time: NDArray[np.int64]
    value: NDArray[np.float64]


class _Stretch(NamedTuple):
    begin: int
    end: int
    node: str
    rank: int
    kind: str
    devices: str


def find_bottlenecks(
    trial: Trial,
    part: Part,
    *,
    gpu_below: float = 10.0,
    core_above: float = 90.0,
    iowait_above: float = 50.0,
    sigmas: float = 3.0,
) -> list[dict[str, Any]]:
    """Find them, and tell what ran then.

    Args:
        trial: The job.
        part: Which part of it.
        gpu_below: A GPU used less than this is idle, percent.
        core_above: A core used more than this is full, percent.
        iowait_above: A core that waits for storage more than this, percent.
        sigmas: Steps longer than the mean by so many standard deviations are outliers.

    Returns:
        A row for each stretch, in the order of time, the longest 200: `begin` and `end` (ns since the epoch),
        `node`, `rank` (-1 for all of a node), `kind` (cpu, io or outlier), `devices`, and as text with shares
        `phases` and `operators`: what took most of the time of all that ran.
    """
    found = [*_idle(trial, part, gpu_below, core_above, iowait_above), *_outliers(part.steps(trial), sigmas)]
    longest = sorted(sorted(found, key=lambda one: (one.begin - one.end, one.begin))[:MOST])
    if not longest:
        return []
    phases = _tops(trial, "spans", "phase", _PHASES, longest)
    operators = _tops(trial, "operators", "name", "kind = 'operator'", longest)
    return [
        {**one._asdict(), "phases": during, "operators": ran}
        for one, during, ran in zip(longest, phases, operators, strict=True)
    ]


def _idle(
    trial: Trial, part: Part, gpu_below: float, core_above: float, iowait_above: float
) -> Iterator[_Stretch]:
    joined: dict[tuple[str, str], _Stretch] = {}
    apart_ns = int(trial.manifest.get("interval_ms") or DEFAULT_INTERVAL_MS) * 1_500_000
    for rows in _read(trial, part):
        for one in _idle_within(rows, gpu_below, core_above, iowait_above):
            key = (one.node, one.kind)
            before = joined.get(key)
            if before is not None and one.begin - before.end <= apart_ns:  # it was cut by where reading was
                devices = dict.fromkeys(f"{before.devices}, {one.devices}".split(", "))
                joined[key] = before._replace(end=one.end, devices=", ".join(devices))
                continue
            if before is not None:
                yield before
            joined[key] = one
    yield from joined.values()


def _read(trial: Trial, part: Part) -> Iterator[Table]:
    """Read the samples in stretches of the job that fit into memory."""
    asked = f"metric IN ({', '.join(map(literal, _METRICS))})"
    where = f"{asked} AND {part.sql('samples')}"
    found = trial.sql(f"SELECT count(*) AS n, min(time) AS a, max(time) AS b FROM samples WHERE {where}")  # noqa: S608
    count = -(-int(found["n"][0]) // _ROWS)
    if not count:
        return
    edges = np.linspace(int(found["a"][0]), int(found["b"][0]) + 1, count + 1).astype(np.int64).tolist()
    edges[-1] = int(found["b"][0]) + 1  # whatever rounding does
    for start, end in itertools.pairwise(edges):
        yield Part(start, end, part.nodes, part.ranks).table(trial, "samples", where=asked)


def _idle_within(rows: Table, gpu_below: float, core_above: float, iowait_above: float) -> Iterator[_Stretch]:
    series: dict[str, dict[tuple[str, str], _Series]] = {metric: {} for metric in _METRICS}
    for (metric, node, device), mine in groups(rows["metric"], rows["node"], rows["device"]).items():
        series[metric][node, device] = _Series(rows["time"][mine], rows["value"][mine])
    gpus = series["gpu.util"]
    for node in sorted({node for node, _ in gpus}):
        at = moments(gpus, node)
        idle = matrix(gpus, node, at) < gpu_below
        names = sorted(device for where, device in gpus if where == node)
        for kind, metric, limit in (("cpu", _METRICS[1], core_above), ("io", _METRICS[2], iowait_above)):
            cores = matrix(series[metric], node, at) > limit
            both = np.asarray(idle.any(axis=0) & cores.any(axis=0))
            full = sorted(device for where, device in series[metric] if where == node)
            edges = _edges(both)
            if not len(edges):
                continue
            every = np.array([*names, *full], object)
            took_part = np.concatenate([idle, cores])
            took_part = np.pad(took_part, ((0, 0), (0, 1)))  # the last stretch may end with the readings
            within = np.logical_or.reduceat(took_part, edges, axis=1)[:, ::2].T
            for low, high, mask in zip(edges[::2].tolist(), edges[1::2].tolist(), within, strict=True):
                yield _Stretch(int(at[low]), int(at[high - 1]), node, -1, kind, ", ".join(every[mask]))


def _edges(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return where stretches of true begin and where they have ended, in turns."""
    return np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))


def _outliers(steps: Table, sigmas: float) -> Iterator[_Stretch]:
    for rank in np.unique(steps["rank"]).tolist():
        mine = steps.where(steps["rank"] == rank)
        took = mine["duration"].astype(np.float64)
        slow = (
            mine.where(took > took.mean() + sigmas * took.std()) if mine.rows > 1 else mine.where(slice(0, 0))
        )
        for row in slow.to_rows():
            yield _Stretch(row["time"], row["time"] + row["duration"], row["node"], rank, "outlier", "")


def _tops(trial: Trial, table: str, column: str, where: str, stretches: list[_Stretch]) -> list[str]:
    """Tell of each stretch what took most of its time; only of the rank it is about, if it is about one."""
    values = ", ".join(
        f"({at}, {one.begin}, {one.end}, {literal(one.node)}, {one.rank})" for at, one in enumerate(stretches)
    )
    first, last = stretches[0].begin, max(one.end for one in stretches)
    found = trial.sql(
        f"SELECT i, {column} AS name, sum(least(time + duration, e) - greatest(time, b) + 1)::BIGINT AS ns "  # noqa: S608
        f"FROM {table} t, (VALUES {values}) s(i, b, e, n, r) "
        f"WHERE time BETWEEN {first - LONGEST_NS} AND {last} AND {where} "
        "AND time <= e AND time + duration >= b AND t.node = n AND (r = -1 OR rank = r) GROUP BY ALL",
        start_ns=first - LONGEST_NS,
        end_ns=last + 1,
    )
    told = [""] * len(stretches)
    for (at,), rows in groups(found["i"]).items():
        shares = percent(sums(found["name"][rows].tolist(), found["ns"][rows].tolist()), _TOP)
        told[int(at)] = ", ".join(f"{name} {share:.0f} %" for name, share in shares.items())
    return told
