"""Describes an imported trace as the document that `holter diagnose --json` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from holter.analysis.device.critical_path import critical_path, path_shares
from holter.analysis.device.idle_time import idle_time
from holter.analysis.device.judged_steps import steps_of
from holter.analysis.device.kernel_statistics import activity, kernel_precision, kernel_table, memory_table
from holter.analysis.device.startup import without_startup
from holter.analysis.device.time_breakdown import time_breakdown
from holter.analysis.host.operator_tree import host, operator_table
from holter.analysis.jobs.worker_timeline import places
from holter.analysis.verdict.device_facts import DeviceFacts, device_facts
from holter.analysis.verdict.device_verdict import momentary, verdict
from holter.views.document.trace_detail import detail, mfu, rows, with_shapes
from holter.views.document.types.profiled import IdleDivision, TimeDivision, TraceLateRank, TraceOddRank
from holter.views.document.types.values import row_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holter.analysis.host.operator_tree import Host
    from holter.schema.table import Table
    from holter.store.documents import Document
    from holter.store.trial import Trial
    from holter.views.document.types import TraceDescription
    from holter.views.document.types.job import SkippedFile
    from holter.views.document.types.profiled import TraceNumbers
    from holter.views.document.types.verdict import JobVerdict
    from holter.views.document.types.what_if import Replay

VERSION = 1
TABLES = {
    "kernels": None,
    "launches": None,
    "memory_operations": None,
    "syncs": None,
    "operators": ("time", "duration", "rank", "thread", "name", "kind"),
    "tracks": None,
    "spans": ("time", "duration", "rank", "step", "phase", "name"),
}
"""Tables and columns that the verdict needs; shapes and stacks of operators make up most of a trace."""
_MOST = 15


def tables(trial: Trial) -> dict[str, Table]:
    """Read what the analyses of a trace need."""
    return {name: trial.table(name, columns=columns) for name, columns in TABLES.items()}


def is_trace(trial: Trial) -> bool:
    """Return whether a job was imported and is judged by its events of devices, or else of the host.

    Operators with samples of the machine are a profile of another kind, which is judged like a recorded job.
    """
    if "imported" not in trial.manifest:
        return False
    on_device = trial.rows("kernels") or trial.rows("memory_operations")
    return bool(on_device or (trial.rows("operators") and not trial.rows("samples")))


def describe_trace(
    trial: Trial, *, skipped: Sequence[SkippedFile] = (), in_detail: bool = False
) -> TraceDescription:
    """Describe an imported job with the keys of a recorded one's description, as far as a trace has them.

    `breakdown` is of the accelerators' time (see `PARTS`), not of the host's steps; shares of `operators` are
    of the own time of all of the host's operators, modules and Python functions, on all threads. `trace` says
    what was read, and adds the definitions of other tools: `hta` and `tracelens` next to `all`; with
    `in_detail` it has `detail` too. `skipped` are files that could not be read.
    """
    read, manifest = _detailed(trial, tables(trial)), trial.manifest
    start, end = manifest.get("start"), manifest.get("end")
    steady, startup = without_startup(read)
    tree = host(read)
    steady_tree = tree if startup is None else host(steady)
    facts = device_facts(steady, startup, steady_tree)
    steps = steps_of(steady)
    length = steps["duration"] / 1e6
    kernels = kernel_table(read, most=_MOST) if facts.kernels else None
    by_name = operator_table(read, kinds=("operator", "module", "python"), tree=tree)
    own_ns = by_name["own_ns"].clip(0)  # below 0 where what lies inside lasts longer, as nothing nests
    host_ns = max(int(own_ns.sum()), 1)
    longest = (column[:_MOST].tolist() for column in (by_name["name"], own_ns, by_name["calls"]))
    return {
        "schema": VERSION,
        "job": {
            "name": manifest["name"],
            "status": "Completed",
            "headline": None,
            "failure": None,
            "duration_s": None if start is None or end is None else (end - start) / 1e9,
        },
        "ranks": list(facts.ranks),
        "steps": {
            "count": facts.steps + (startup.steps if startup else 0),
            "warmup": startup.steps if startup else 0,
            "warmup_ms": startup.ms if startup else None,
            "inferred_from": facts.inferred or None,
            "mean_ms": float(length.mean()),
            "p50_ms": float(np.median(length)),
            "max_ms": float(length.max()),
        }
        if steps.rows
        else None,
        "breakdown": None if momentary(read) else facts.breakdown or None,
        "not_seen": [],
        "dataloading": None,
        "operators": {
            "cpu": [
                {"name": name, "pct": 100.0 * own / host_ns, "total_ms": own / 1e6, "count": calls}
                for name, own, calls in zip(*longest, strict=True)
            ],
            "gpu": [
                {
                    "name": row["name"],
                    "pct": row["share_pct"],
                    "total_ms": row["total_ns"] / 1e6,
                    "count": row["launches"],
                }
                for row in (kernels.to_rows() if kernels else ())
            ],
        },
        "verdict": cast("JobVerdict", verdict(read, facts).to_json()),
        "rules": [],
        "what_if": cast("Replay", facts.what_if.to_json()) if facts.what_if else None,
        "trace": _trace(trial, read, (steady, steady_tree), facts, trial.imported, in_detail=in_detail),
        "skipped": [*skipped, *cast("list[SkippedFile]", trial.skipped)],
    }


def _detailed(trial: Trial, read: dict[str, Table]) -> dict[str, Table]:
    """Add the details of operators: all of them if threads name their place in a parallel job."""
    if read["kernels"].rows or not places(read["tracks"]):
        return with_shapes(trial, read)
    return {**read, "operators": trial.table("operators")}


def _trace(
    trial: Trial,
    read: Mapping[str, Table],
    steady: tuple[Mapping[str, Table], Host],
    facts: DeviceFacts,
    imported: Document,
    *,
    in_detail: bool,
) -> TraceNumbers:
    told = (imported.get("facts") or {}).values()
    listed = [device.get("name") for known in told for device in (known.get("devices") or [])]
    devices = sorted({str(name) for name in listed if name})
    more = {name: trial.table(name) for name in ("flows", "counters")} if in_detail else {}
    return {
        "files": dict(imported.get("files") or {}),
        "devices": devices,
        "mfu": mfu(steady[0], devices, tree=steady[1]) if facts.kernels else None,
        "detail": detail({**read, **more}, devices, on_host=not devices) if in_detail else None,
        "precision": kernel_precision(read),
        "activity": activity(read),
        "memory": rows(memory_table(read)),
        "breakdowns": [
            {**row_of(part, TimeDivision), "device": part.device if part.device >= 0 else None}
            for definition in ("all", "hta", "tracelens")
            for part in time_breakdown(read, definition)
        ],
        "idle": [row_of(part, IdleDivision) for part in idle_time(read)],
        "critical_path": path_shares(critical_path(read)),
        "late_ranks": [row_of(late, TraceLateRank) for late in facts.late],
        "odd_ranks": [row_of(odd, TraceOddRank) for odd in facts.odd],
    }
