"""Where a job was held up: GPUs idle while cores were full or waited for storage, and steps far too long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from holter.analysis.grouping import groups
from holter.analysis.running import percent, sums
from holter.analysis.snapshots import matrix, moments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from holter.schema.table import Table
    from holter.store.trial import Trial
    from holter.views.part import Part

MOST = 200
"""Stretches that are told: the longest."""
_TOP = 3
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
    longest = sorted(found, key=lambda one: (one.begin - one.end, one.begin))[:MOST]
    if not longest:
        return []
    first, last = min(one.begin for one in longest), max(one.end for one in longest)
    near = f"time <= {last} AND time + duration >= {first}"
    spans = part.table(
        trial, "spans", where=f"worker = -1 AND phase NOT IN ('step', 'scalar', 'stack') AND {near}"
    )
    operators = part.table(trial, "operators", where=f"kind = 'operator' AND {near}")
    return [
        {**one._asdict(), "phases": _top(spans, "phase", one), "operators": _top(operators, "name", one)}
        for one in sorted(longest)
    ]


def _idle(
    trial: Trial, part: Part, gpu_below: float, core_above: float, iowait_above: float
) -> Iterator[_Stretch]:
    asked = ", ".join(f"'{metric}'" for metric in _METRICS)
    rows = part.table(trial, "samples", where=f"metric IN ({asked})")
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
            both = idle.any(axis=0) & cores.any(axis=0)
            full = sorted(device for where, device in series[metric] if where == node)
            for low, high in _runs(both):
                devices = [name for name, row in zip(names, idle, strict=True) if row[low:high].any()]
                devices += [name for name, row in zip(full, cores, strict=True) if row[low:high].any()]
                yield _Stretch(int(at[low]), int(at[high - 1]), node, -1, kind, ", ".join(devices))


def _runs(mask: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Yield where stretches of true begin, and where they have ended."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _outliers(steps: Table, sigmas: float) -> Iterator[_Stretch]:
    for rank in np.unique(steps["rank"]).tolist():
        mine = steps.where(steps["rank"] == rank)
        took = mine["duration"].astype(np.float64)
        slow = (
            mine.where(took > took.mean() + sigmas * took.std()) if mine.rows > 1 else mine.where(slice(0, 0))
        )
        for row in slow.to_rows():
            yield _Stretch(row["time"], row["time"] + row["duration"], row["node"], rank, "outlier", "")


def _top(rows: Table, column: str, one: _Stretch) -> str:
    """Tell what took most of the time of a stretch; only of the rank it is about, if it is about one."""
    begin, end = rows["time"], rows["time"] + rows["duration"]
    inside = (begin <= one.end) & (end >= one.begin) & (rows["node"] == one.node)
    if one.rank >= 0:
        inside &= rows["rank"] == one.rank
    overlap = np.minimum(end[inside], one.end) - np.maximum(begin[inside], one.begin)
    shares = percent(sums(rows[column][inside].tolist(), np.maximum(overlap, 1).tolist()), _TOP)
    return ", ".join(f"{name} {share:.0f} %" for name, share in shares.items())
