"""Finds bottlenecks: idle GPUs while cores are full or wait for storage, and outlier steps."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from holter.analysis.grouping import coded, groups, percent, sums
from holter.analysis.machine.snapshots import TOLERANCE_NS
from holter.store.parquet.queries import literal
from holter.views.document.active_then import LONGEST_NS
from holter.views.document.part import Part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from holter.schema.table import Table
    from holter.store.trial import Trial
    from holter.views.document.types.values import TableRow

MOST = 200
"""Limit on the number of bottlenecks; the longest are returned."""
_TOP = 3
_ROWS = 1_000_000
"""Number of samples that one query reads."""
_GPU = "metric = 'gpu.util'"
_PHASES = "worker = -1 AND phase NOT IN ('step', 'scalar', 'stack', 'loop_stack')"


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
) -> list[TableRow]:
    """Find bottlenecks, with the phases and operators that ran at the time.

    Args:
        trial: The job.
        part: The part of the job.
        gpu_below: A GPU used less than this is idle, percent.
        core_above: A core used more than this is full, percent.
        iowait_above: Limit on the share of time in which a core waits for storage, percent.
        sigmas: Steps longer than the mean by so many standard deviations are outliers.

    Returns:
        The 200 longest stretches in the order of time: `begin` and `end` (ns since the epoch), `node`, `rank`
        (-1 for all of a node), `kind` (cpu, io or outlier), `devices`, and as text with shares `phases` and
        `operators`.
    """
    found = [
        *_idle(trial, part, gpu_below, core_above, iowait_above),
        *_outliers(part.steps(trial, columns=()), sigmas),
    ]
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
    limits = (("cpu", "cpu.core.util", core_above), ("io", "cpu.core.iowait", iowait_above))
    read = trial.sql(f"SELECT DISTINCT node, time FROM samples WHERE {_GPU} AND {part.sql('samples')}")  # noqa: S608
    for (node,), mine in sorted(groups(read["node"]).items()):
        here = replace(part, nodes=(node,))
        at = np.sort(read["time"][mine])
        at = at[np.concatenate([[True], np.diff(at) > TOLERANCE_NS])]
        idle = _beyond(trial, here, f"{_GPU} AND value < {float(gpu_below)}", at)
        if not idle:
            continue
        some = np.flatnonzero(np.any(list(idle.values()), axis=0))
        begin, until = int(at[some[0]]), int(at[some[-1]]) + TOLERANCE_NS + 1
        near = Part(max(begin, here.start_ns or 0), min(until, here.end_ns or until), here.nodes, here.ranks)
        for kind, metric, limit in limits:
            full = _beyond(trial, near, f"metric = '{metric}' AND value > {float(limit)}", at)
            if full:
                yield from _stretches(node, kind, at, idle, full)


def _beyond(trial: Trial, part: Part, where: str, at: NDArray[np.int64]) -> dict[str, NDArray[np.bool_]]:
    """Return in which snapshots of a node each device had a reading that obeys a condition."""
    asked = f"FROM samples WHERE {where} AND {part.sql('samples')}"
    found = trial.sql(f"SELECT count(*) AS n, min(time) AS a, max(time) AS b {asked}")
    count = -(-int(found["n"][0]) // _ROWS)
    masks: dict[str, NDArray[np.bool_]] = {}
    if not count:
        return masks
    # Most of the samples may match, so they are read in pieces that fit into memory.
    edges = np.linspace(int(found["a"][0]), int(found["b"][0]) + 1, count + 1).astype(np.int64).tolist()
    edges[-1] = int(found["b"][0]) + 1  # whatever rounding does
    for start, end in itertools.pairwise(edges):
        rows = Part(start, end, part.nodes, part.ranks).table(
            trial, "samples", columns=("time", "device"), where=where
        )
        slot = np.searchsorted(at, rows["time"], side="right") - 1
        near = (slot >= 0) & (rows["time"] - at[np.maximum(slot, 0)] <= TOLERANCE_NS)
        devices, codes = coded(rows["device"])
        for code, device in enumerate(devices.tolist()):
            mask = masks.setdefault(device, np.zeros(len(at), bool))
            mask[slot[near & (codes == code)]] = True
    return masks


def _stretches(
    node: str,
    kind: str,
    at: NDArray[np.int64],
    idle: dict[str, NDArray[np.bool_]],
    full: dict[str, NDArray[np.bool_]],
) -> Iterator[_Stretch]:
    both = np.any(list(idle.values()), axis=0) & np.any(list(full.values()), axis=0)
    # Where stretches of true begin and where they have ended, in turns.
    edges = np.flatnonzero(np.diff(np.concatenate([[False], both, [False]]).astype(np.int8)))
    if not len(edges):
        return
    every = np.array([*sorted(idle), *sorted(full)], object)
    # The last stretch may end with the readings, so the mask gets one false entry more.
    within = np.array(
        [
            np.logical_or.reduceat(np.append(mask, False), edges)[::2]
            for of in (idle, full)
            for _, mask in sorted(of.items())
        ]
    ).T
    for low, high, mask in zip(edges[::2].tolist(), edges[1::2].tolist(), within, strict=True):
        yield _Stretch(int(at[low]), int(at[high - 1]), node, -1, kind, ", ".join(every[mask]))


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
    """Return for each stretch the names that took most of its time, of the stretch's rank if it has one."""
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
