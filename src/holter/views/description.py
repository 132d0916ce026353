"""Everything known of one job, as one document: what `holter describe --json` prints."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.breakdown import breakdown
from holter.analysis.durations import step_statistics
from holter.analysis.outliers import outliers
from holter.analysis.phases import job_phases
from holter.analysis.steps import steps as build_steps
from holter.analysis.utilization import utilization
from holter.analysis.warmup import steady
from holter.views.cost import cost, details

if TYPE_CHECKING:
    from holter.schema.table import Table
    from holter.store.trial import Trial

VERSION = 1
_MOST_OUTLIERS = 20
_MAIN_THREAD = "worker = -1 AND thread = 0"


def describe(trial: Trial, *, now_ns: int | None = None) -> dict[str, Any]:
    """Describe a job, running or finished; the document's schema lies beside this file.

    Args:
        trial: The job's tables.
        now_ns: Now, nanoseconds since the epoch, for jobs that run; by default the clock's.

    Returns:
        The document. What is not known is None or an empty list, never 0.
    """
    now = time.time_ns() if now_ns is None else now_ns
    events = trial.table("events")
    steps = steps_of(trial)
    steady_steps = steps.where(steady(steps))
    job = _job(trial.manifest, events, now)
    samples = trial.table("samples")
    return {
        "schema": VERSION,
        "job": job,
        "nodes": [_node(name, facts) for name, facts in trial.nodes.items()],
        "ranks": _ranks(steps, events),
        "phases": job_phases(job["start"], job["end"] or now, steps) if job["start"] and steps.rows else None,
        "steps": _steps(steps, steady_steps),
        "breakdown": breakdown(steps) or None,
        "utilization": utilization(samples),
        "operators": None,
        "cost": cost(trial, events, steps, job),
        "skipped": trial.skipped,
    }


def diagnosis(description: dict[str, Any]) -> dict[str, Any]:
    """Return what `holter diagnose --json` prints: the verdict and the breakdown, and which job it is of."""
    job = {name: description["job"][name] for name in ("name", "status", "failure")}
    kept = ("schema", "verdict", "breakdown", "dataloading", "skipped")
    return {"job": job, **{name: description[name] for name in kept}}


def steps_of(trial: Trial) -> Table:
    """Return table `steps`: as stored, or computed from the spans of a job that nobody judged."""
    stored = trial.table("steps")
    if stored.rows:
        return stored
    return build_steps(trial.table("spans", where=_MAIN_THREAD))


def _job(manifest: dict[str, Any], events: Table, now: int) -> dict[str, Any]:
    start, end = manifest.get("start"), manifest.get("end")
    status = manifest.get("status")
    until = end or (now if status in ("InProgress", "Stopping") else None)
    frameworks = details(events, "framework")
    kept = ("name", "version", "device")
    framework = {key: frameworks[0].get(key) for key in kept} if frameworks else manifest.get("framework")
    return {
        "name": manifest["name"],
        "status": status,
        "command": manifest.get("command") or [],
        "start": start,
        "end": end,
        "duration_s": (until - start) / 1e9 if start and until else None,
        "exit_code": manifest.get("exit_code"),
        "signal": _signal(manifest.get("signal")),
        "failure": manifest.get("failure"),
        "framework": framework,
        "attempts": manifest.get("attempts") or [],
    }


def _signal(number: Any) -> str | None:
    try:
        return signal.Signals(number).name if isinstance(number, int) else number
    except ValueError:
        return f"signal {number}"


def _node(name: str, facts: dict[str, Any]) -> dict[str, Any]:
    kept = ("cpus", "memory_bytes", "gpus")
    return {"node": name, **{key: facts.get(key) for key in kept}}


def _ranks(steps: Table, events: Table) -> list[int]:
    """Return the ranks that took steps; of a job without any, those that said who they are."""
    seen = steps["rank"] if steps.rows else events["rank"][events["kind"] == "process"]
    return [int(rank) for rank in np.unique(seen) if rank >= 0]


def _steps(steps: Table, steady_steps: Table) -> dict[str, Any] | None:
    if not steps.rows:
        return None
    names = ("mean_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "max_ms", "per_second")
    worst = outliers(steady_steps)[:_MOST_OUTLIERS]
    found = [
        {"step": o.step, "rank": o.rank, "duration_ms": o.duration_ms, "extra_ms": o.extra_ms, "cause": o.cause}
        for o in worst
    ]
    statistics = step_statistics(steps)
    return {**dict.fromkeys(names), **statistics, "outlier_count": statistics.get("outliers", 0), "outliers": found}
