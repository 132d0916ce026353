"""Computes the details of a trace or a window: modules, roofline, launches, queues, memory, MFU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from holter.analysis.device.bandwidth import bandwidths
from holter.analysis.device.copy_bandwidth import copy_bandwidth_summary
from holter.analysis.device.hta_path import PARTS, hta_critical_path
from holter.analysis.device.judged_steps import inferred_from, steps_of
from holter.analysis.device.kernel_statistics import kernel_table
from holter.analysis.device.launching import host_bound, launch_delays, queue_lengths
from holter.analysis.device.memory_timeline import memory_timelines
from holter.analysis.device.operator_costs import KNOWN
from holter.analysis.device.roofline import roofline, utilization
from holter.analysis.device.steps import annotation_table, device_step_times, step_roles
from holter.analysis.device.work import matching
from holter.analysis.host.operator_tree import forward_backward, host, module_table
from holter.schema.table import Table
from holter.store.parquet.queries import literals
from holter.views.document.types.profiled import MemoryCounter
from holter.views.document.types.values import row_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from holter.analysis.host.operator_tree import Host
    from holter.store.trial import Trial
    from holter.views.document.types.profiled import (
        CountedDurations,
        DurationStatistics,
        GradientPair,
        LaunchStatistics,
        PeakShare,
        RooflineRow,
        WindowDetail,
    )
    from holter.views.document.types.values import TableRow

_MOST = 15
_OF_DEVICES = ("kernels", "launches", "memory_operations", "syncs")
_MOST_IN_GRAPH = 300_000
"""Limit on the operators of a critical path that no step bounds."""


def with_shapes(trial: Trial, read: Mapping[str, Table], where: str = "true") -> dict[str, Table]:
    """Return the tables with the details of waits and of operators whose work is known.

    `where` is the condition under which `operators` were read.
    """
    operators = read["operators"]
    wanted = np.isin(operators["name"], KNOWN) | (operators["kind"] == "device_wait")
    detail = np.full(operators.rows, "", object)
    if wanted.any():
        same = ("time", "duration", "rank", "thread", "name", "kind")
        where = f"({where}) AND (name IN ({literals(KNOWN)}) OR kind = 'device_wait')"
        shapes = trial.table("operators", columns=(*same, "detail"), where=where)
        if shapes.rows == int(wanted.sum()) and np.array_equal(shapes["time"], operators["time"][wanted]):
            detail[wanted] = shapes["detail"]
    return {**read, "operators": Table({**operators.columns, "detail": detail})}


def mfu(
    read: Mapping[str, Table],
    devices: Sequence[str],
    window_ns: int | None = None,
    tree: Host | None = None,
) -> PeakShare | None:
    """Return the share of the device's peak that the known operators reach; None if unknown.

    `window_ns` is the time that the operators take without the profiler. `tree` is the result of `host`.
    """
    found = utilization(read, devices[0], tree) if len(devices) == 1 else None
    if found is None:
        return None
    found = found._replace(window_ns=window_ns or found.window_ns)
    return {
        "pct": found.mfu_pct,
        "tflop": found.flops / 1e12,
        "precision": found.precision,
        "peak_tflops": found.peak / 1e12,
        "device": devices[0],
    }


def detail(tables: Mapping[str, Table], devices: Sequence[str], *, on_host: bool) -> WindowDetail:
    """Return what `holter diagnose --detail` adds to the verdict.

    `tables` are those of a trace or a window, as `with_shapes` returns them, with `flows` and `counters`.
    `devices` are distinct names. `on_host`: operators ran on the CPU unless the tables have work of an
    accelerator.
    """
    on_host = on_host and not any(tables[name].rows for name in _OF_DEVICES)
    device = devices[0] if len(devices) == 1 else ""
    modules = module_table(tables)
    return {
        "steps": _steps(tables),
        "roles": _roles(tables),
        "kernels_by_launches": rows(kernel_table(tables, by="launches", most=_MOST)),
        "modules": rows(modules.where(np.argsort(-modules["total_ns"], kind="stable")[:_MOST])),
        "roofline": cast(
            "list[RooflineRow]", rows(roofline(tables, device, on_host=on_host).where(slice(_MOST)))
        ),
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
        "memory": [row_of(one, MemoryCounter) for one in memory_timelines(tables)],
    }  # fmt: skip


def rows(table: Table) -> list[TableRow]:
    """Return the rows of a table as JSON rows: NaN and infinity become null."""
    return [{name: _number(value) for name, value in row.items()} for row in table.to_rows()]


def _number(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _spread(ns: NDArray[Any]) -> DurationStatistics:
    """Return mean and percentiles of durations, us."""
    p50, p95, p99, most = (np.percentile(ns, (50, 95, 99, 100)) / 1e3).tolist()
    return {"mean_us": float(ns.mean()) / 1e3, "p50_us": p50, "p95_us": p95, "p99_us": p99, "max_us": most}


def _steps(tables: Mapping[str, Table]) -> CountedDurations | None:
    found = device_step_times(tables)
    ran = found["device_duration"][found["works"] > 0]
    return {"count": len(ran), **_spread(ran)} if len(ran) else None


def _roles(tables: Mapping[str, Table]) -> dict[str, float] | None:
    """Return the shares of the roles of the TensorBoard plug-in, percent of the steps."""
    found = step_roles(tables)
    names = [name for name in found.names if name not in ("rank", "step")]
    sums = {name: float(found[name].sum()) for name in names}
    whole = sum(sums.values())
    return {name: 100.0 * ns / whole for name, ns in sums.items()} if whole else None


def _launches(tables: Mapping[str, Table]) -> LaunchStatistics | None:
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
    """Return the shares of HTA's critical path through the first step, percent; without steps of all.

    Of a window, which has steps but no annotations of them, through what belongs to its first step.
    """
    steps = steps_of(tables)
    annotation = "ProfilerStep" if steps.rows and not inferred_from(steps) else ""
    if annotation and not matching(tables["operators"]["name"], lambda name: annotation in name).any():
        if "step" not in tables["operators"] or not tables["kernels"].rows:
            return None  # of a trace it is not known; without kernels all of it is the host's
        first = steps["step"].min()
        tables = {name: one.where(one["step"] == first) for name, one in tables.items() if "step" in one}
        annotation = ""
    if not annotation and tables["operators"].rows > _MOST_IN_GRAPH:
        return None
    try:
        path = hta_critical_path(tables, annotation)
    except ValueError:
        return None
    whole = int(path["duration"].sum())
    sums = {part: int(path["duration"][path["part"] == part].sum()) for part in PARTS}
    return {part: 100.0 * ns / whole for part, ns in sums.items()} if whole else None


def _gradients(tables: Mapping[str, Table]) -> list[GradientPair]:
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
            "count": n,
            "forward_us": first / 1e3,
            "backward_us": second / 1e3,
        }
        for (ahead, back), (n, first, second) in largest
    ]
