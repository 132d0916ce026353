"""Everything known of one job, as one document: what `holter describe --json` prints."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.steps.breakdown import breakdown
from holter.analysis.steps.durations import step_statistics
from holter.analysis.steps.loop_thread import COUNTED, not_counted
from holter.analysis.steps.outliers import outliers
from holter.analysis.steps.phases import evaluated, job_phases
from holter.analysis.steps.trainings import begins, step_counts, told_apart
from holter.analysis.steps.warmup import steady
from holter.analysis.tensors.numbers import numbers
from holter.analysis.verdict.failure import headline
from holter.analysis.verdict.job_facts import gather
from holter.analysis.verdict.job_verdict import verdict
from holter.schema.signals import signal_name
from holter.views.document import description_kept, profiled_steps
from holter.views.document.bill import bill_of
from holter.views.document.cost import cost, details
from holter.views.document.nodes import nodes_of
from holter.views.document.saved_tensors import saved_tensors
from holter.views.document.trace_description import describe_trace, is_trace
from holter.views.jobs import why_not_running
from holter.views.reading import Stretches, steps_of, utilization_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.analysis.steps.outliers import Outlier
    from holter.analysis.verdict.job_facts import VerdictFacts
    from holter.schema.table import Table
    from holter.store.trial import Trial

VERSION = 1
_OF_TRACE = ("breakdown", "dataloading", "operators", "verdict", "trace")
_MOST_OUTLIERS = 20


def describe(
    trial: Trial,
    *,
    now_ns: int | None = None,
    price: float | None = None,
    machines: float | None = None,
    steps: Callable[[], Table] | None = None,
    in_detail: bool = False,
) -> dict[str, Any]:
    """Describe a job, running or finished; the document's schema lies beside this file.

    Args:
        trial: The job's tables.
        now_ns: Now, nanoseconds since the epoch, for jobs that run; by default the clock's.
        price: What one machine costs an hour, for the bill; by default what `holter run --price` said.
        machines: How many machines count for the bill; by default the job's nodes.
        steps: Reads its table `steps`, for who has it; asked only when nothing was kept.
        in_detail: Whether `window` has `mfu` and `detail` too, computed each time.

    Returns:
        The document. What is not known is None or an empty list, never 0.

    Raises:
        ValueError: The price or the number of machines is negative or not finite.
    """
    told = description_kept.read(trial)
    if told is None:
        read = steps_of(trial) if steps is None else steps()
        told = _described(trial, time.time_ns() if now_ns is None else now_ns, read)
        description_kept.write(trial, told)
    if in_detail and told["window"]:
        told = {**told, "window": {**told["window"], **profiled_steps.in_detail(trial, told)}}
    return {**told, "bill": bill_of(trial, told, price, machines)}


def _described(trial: Trial, now: int, steps: Table) -> dict[str, Any]:
    """Describe a job but for its bill."""
    manifest, nodes = trial.manifest, trial.nodes
    events, scalars = trial.table("events"), trial.table("scalars")
    stretches = Stretches.of(trial, int(manifest.get("start") or 0))
    samples = stretches.samples(trial)
    profiled = None if is_trace(trial) else profiled_steps.read(trial)
    facts = gather(
        stretches.inside(steps),
        samples=samples,
        spans=stretches.loading(trial),
        events=events,
        nodes=nodes,
        profiled=profiled,
        running=why_not_running(trial.folder) is None,
        not_counted=not_counted(trial.sql(COUNTED).to_rows()),
    )
    mask = steady(steps)
    worst = outliers(steps, mask=mask)
    if not stretches.whole:
        statistics = step_statistics(steps, mask, found=worst)
        facts = replace(facts, breakdown=breakdown(steps, mask), statistics=statistics)
    job = _job(manifest, events, now)
    document = {
        "schema": VERSION,
        "job": {**job, "headline": headline(manifest, events, scalars)},
        "nodes": nodes_of(
            trial, nodes, steps if steps.rows else events, stretches, (job["framework"] or {}).get("device")
        ),
        "ranks": _ranks(steps, events),
        "phases": _phases(trial, job, steps, now) if job["start"] and steps.rows else None,
        "steps": {**_steps(worst, facts.statistics), "trainings": step_counts(steps)} if steps.rows else None,
        "numbers": numbers(told_apart(scalars, begins(steps))),
        "tensors": saved_tensors(trial),
        "breakdown": _seen(facts) or None,
        "not_seen": list(facts.not_seen),
        "dataloading": facts.loading.to_json() if facts.loading else None,
        "utilization": utilization_of(trial, samples, stretches),
        "operators": profiled_steps.operators(facts.profiled) if facts.profiled else None,
        "window": profiled_steps.window(facts.profiled, profiled) if facts.profiled and profiled else None,
        "verdict": _verdict(facts, trial, steps),
        "rules": _rules(trial),
        "cost": cost(trial, events, steps, samples),
        "looked_at_pct": 100.0 / stretches.every,
        "skipped": trial.skipped,
    }
    if is_trace(trial):  # its steps have no phases: the devices' and the operators' events are what speaks
        told = describe_trace(trial)
        document |= {name: told[name] for name in _OF_TRACE} | {"not_seen": []}
    return document


def diagnosis(description: dict[str, Any]) -> dict[str, Any]:
    """Return what `holter diagnose --json` prints: the verdict and the breakdown, and which job it is of.

    Operators too, and what a profiling window saw; of a trace that holter did not record its numbers.
    """
    job = {name: description["job"][name] for name in ("name", "status", "failure")}
    kept = ("schema", "verdict", "breakdown", "not_seen", "dataloading", "skipped")
    more = ("ranks", "steps", "operators", "trace") if "trace" in description else ("operators", "window")
    return {"job": job, **{name: description[name] for name in (*kept, *more)}}


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
        "stopped_by": manifest.get("stopped_by"),
        "framework": framework,
        "attempts": manifest.get("attempts") or [],
        "nodes_expected": (manifest.get("launch") or {}).get("nodes"),
    }


def _seen(facts: VerdictFacts) -> dict[str, float]:
    """Return the breakdown without the parts of which nothing is known."""
    return {part: share for part, share in facts.breakdown.items() if part not in facts.not_seen}


def _verdict(facts: VerdictFacts, trial: Trial, steps: Table) -> dict[str, Any]:
    """Return the verdict; where steps are missing because files are damaged, recording them is no advice."""
    told = verdict(facts).to_json()
    if trial.skipped and not steps.rows:
        text = "Some files of this job cannot be read, its steps may be in them: restore them from a copy."
        told["advice"] = [{"text": text, "expected_step_ms": None, "why": ""}]
    return told


def _signal(number: Any) -> str | None:
    return signal_name(number) if isinstance(number, int) else number


def _ranks(steps: Table, events: Table) -> list[int]:
    """Return the ranks that took steps; of a job without any, those that said who they are."""
    seen = steps["rank"] if steps.rows else events["rank"][events["kind"] == "process"]
    return [int(rank) for rank in np.unique(seen) if rank >= 0]


def _phases(trial: Trial, job: dict[str, Any], steps: Table, now: int) -> dict[str, float | int | None]:
    last = int((steps["time"] + steps["duration"]).max())
    after = trial.table(
        "spans",
        where=f"worker = -1 AND thread = 0 AND phase IN ('forward', 'data_loading') AND time >= {last}",
        start_ns=last,
    )
    ranks = np.unique(after["rank"]).tolist()
    longest = max((evaluated(after.where(after["rank"] == rank)) for rank in ranks), default=0)
    return job_phases(job["start"], job["end"] or now, steps, longest)


def _steps(worst: list[Outlier], statistics: dict[str, float | int]) -> dict[str, Any]:
    names = ("mean_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "max_ms", "per_second")
    found = [
        {
            "step": o.step,
            "rank": o.rank,
            "duration_ms": o.duration_ms,
            "extra_ms": o.extra_ms,
            "cause": o.cause,
        }
        for o in worst[:_MOST_OUTLIERS]
    ]
    count = len({outlier.step for outlier in worst})
    return {**dict.fromkeys(names), **statistics, "outlier_count": count, "outliers": found}


def _rules(trial: Trial) -> list[dict[str, Any]]:
    """Return what the rules found; those that have not run yet are InProgress without evaluations."""
    return list(trial.folder.evaluations().get("rules") or [])
