"""What else the tables of a trace tell: modules, launches, queues, collectives, gradients, memory, MFU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.bandwidth import bandwidths
from holter.analysis.copy_bandwidth import copy_bandwidth_summary
from holter.analysis.device_steps import annotation_table, step_roles, step_times
from holter.analysis.hta_path import PARTS, hta_critical_path
from holter.analysis.kernel_statistics import kernel_table
from holter.analysis.launching import host_bound, launch_delays, queue_lengths
from holter.analysis.memory_timeline import memory_timelines
from holter.analysis.operator_tree import forward_backward, host, module_table
from holter.analysis.roofline import KNOWN, roofline, utilization
from holter.schema.table import Table
from holter.store import parquet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from holter.store.trial import Trial

_MOST = 15
_MOST_IN_GRAPH = 300_000
"""Operators through which a path is looked for, where no step bounds it."""


def with_shapes(trial: Trial, read: Mapping[str, Table]) -> dict[str, Table]:
    """Return the tables with the details of waits and of operators whose work is known, and of no others."""
    operators = read["operators"]
    wanted = np.isin(operators["name"], KNOWN) | (operators["kind"] == "device_wait")
    detail = np.full(operators.rows, "", object)
    if wanted.any():
        names = ", ".join(map(parquet.literal, KNOWN))
        same = ("time", "duration", "rank", "thread", "name", "kind")
        where = f"name IN ({names}) OR kind = 'device_wait'"
        shapes = trial.table("operators", columns=(*same, "detail"), where=where)
        if shapes.rows == int(wanted.sum()) and np.array_equal(shapes["time"], operators["time"][wanted]):
            detail[wanted] = shapes["detail"]
    return {**read, "operators": Table({**operators.columns, "detail": detail})}


def mfu(read: Mapping[str, Table], devices: Sequence[str]) -> dict[str, Any] | None:
    """Return the share of the device's peak that the known operators reach; None where that is not known."""
    found = utilization(read, devices[0]) if len(devices) == 1 else None
    if found is None:
        return None
    return {
        "pct": found.mfu_pct,
        "tflop": found.flops / 1e12,
        "precision": found.precision,
        "peak_tflops": found.peak / 1e12,
        "device": devices[0],
    }


def detail(trial: Trial, read: Mapping[str, Table], devices: Sequence[str]) -> dict[str, Any]:
    """Return what `holter diagnose TRACE --detail` shows beside the verdict.

    Args:
        trial: The trace, imported.
        read: Its tables with the shapes of operators, as `with_shapes` returns them.
        devices: Names of its devices, without repetition.
    """
    tables = {**read, **{name: trial.table(name) for name in ("flows", "counters")}}
    device = devices[0] if len(devices) == 1 else ""
    return {
        "steps": _steps(tables),
        "roles": _roles(tables),
        "kernels_by_launches": rows(kernel_table(tables, by="launches", most=_MOST)),
        "modules": rows(module_table(tables).where(slice(_MOST))),
        "roofline": rows(roofline(tables, device).where(slice(_MOST))),
        "launches": _launches(tables),
        "queues": [
            {"rank": q.rank, "device": q.device, "stream": q.stream, "longest": q.longest,
             "mean": _number(q.mean)}
            for q in queue_lengths(tables)
        ],
        "host_bound": [
            {"rank": one.rank, "device": one.device,
             "starved_pct": one.starved_pct, "short_pct": one.short_pct,
             "stretches": len(one.begin), "stretches_us": one.stretch_ns / 1e3}
            for one in host_bound(tables)
        ],
        "collectives": rows(bandwidths(tables["kernels"]).where(slice(_MOST))),
        "copies": [
            {"definition": definition, **row}
            for definition in ("all", "hta")
            for row in rows(copy_bandwidth_summary(tables, definition=definition))
        ],
        "hta_critical_path": _hta_path(tables),
        "gradients": _gradients(tables),
        "annotations": rows(annotation_table(tables).where(slice(_MOST))),
        "memory": [
            {"rank": one.rank, "name": one.name, "peak": one.peak, "growth": one.growth}
            for one in memory_timelines(tables)
        ],
    }  # fmt: skip


def rows(table: Table) -> list[dict[str, Any]]:
    """Return rows as a document has them: null for a number that there is not."""
    return [{name: _number(value) for name, value in row.items()} for row in table.to_rows()]


def _number(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _spread(ns: NDArray[Any]) -> dict[str, float]:
    """Return mean and percentiles of durations, us."""
    told = zip(("p50_us", "p95_us", "p99_us", "max_us"), np.percentile(ns, (50, 95, 99, 100)), strict=True)
    return {"mean_us": float(ns.mean()) / 1e3, **{name: float(value) / 1e3 for name, value in told}}


def _steps(tables: Mapping[str, Table]) -> dict[str, Any] | None:
    found = step_times(tables)
    ran = found["device_duration"][found["works"] > 0]
    return {"count": len(ran), **_spread(ran)} if len(ran) else None


def _roles(tables: Mapping[str, Table]) -> dict[str, float] | None:
    """Return the shares of the roles of the TensorBoard plug-in, percent of the steps."""
    found = step_roles(tables)
    names = [name for name in found.names if name not in ("rank", "step")]
    sums = {name: float(found[name].sum()) for name in names}
    whole = sum(sums.values())
    return {name: 100.0 * ns / whole for name, ns in sums.items()} if whole else None


def _launches(tables: Mapping[str, Table]) -> dict[str, Any] | None:
    found = launch_delays(tables)
    if not found.rows:
        return None
    return {
        "count": found.rows,
        "call": _spread(found["host_ns"]),
        "delay": _spread(found["delay_ns"]),
        "run": _spread(found["device_ns"]),
    }


def _hta_path(tables: Mapping[str, Table]) -> dict[str, float] | None:
    """Return the shares of HTA's critical path through the first step, percent; without steps of all."""
    steps = tables["spans"].where(tables["spans"]["phase"] == "step")
    if not steps.rows and tables["operators"].rows > _MOST_IN_GRAPH:
        return None
    try:
        path = hta_critical_path(tables, "ProfilerStep" if steps.rows else "")
    except ValueError:
        return None
    whole = int(path["duration"].sum())
    sums = {part: int(path["duration"][path["part"] == part].sum()) for part in PARTS}
    return {part: 100.0 * ns / whole for part, ns in sums.items()} if whole else None


def _gradients(tables: Mapping[str, Table]) -> list[dict[str, Any]]:
    """Add up the operators of the forward pass, each with what the arrows say belongs to it backward."""
    if not tables["flows"].rows:
        return []
    tree = host(tables)
    links = forward_backward(tree, tables["flows"])
    total = tree.total_ns
    found: dict[tuple[str, str], list[int]] = {}
    pairs = zip(tree.words(links.forward), tree.words(links.backward), strict=True)
    for pair, ahead, back in zip(
        pairs, total[links.forward].tolist(), total[links.backward].tolist(), strict=True
    ):
        known = found.setdefault(pair, [0, 0, 0])
        known[0] += 1
        known[1] += ahead
        known[2] += back
    largest = sorted(found.items(), key=lambda item: -item[1][2])[:_MOST]
    return [
        {
            "forward": ahead,
            "backward": back,
            "count": count,
            "forward_us": first / 1e3,
            "backward_us": second / 1e3,
        }
        for (ahead, back), (count, first, second) in largest
    ]
