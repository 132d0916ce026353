"""Describes one job as one document: what `holter describe --json` prints."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from holter.analysis.events import device_ns
from holter.analysis.jobs.synchronous_steps import SENT
from holter.analysis.steps.breakdown import breakdown, only_seen
from holter.analysis.steps.durations import step_statistics
from holter.analysis.steps.early_evaluation import with_early_evaluation
from holter.analysis.steps.gpu_times import gpu_times
from holter.analysis.steps.loop_thread import COUNTED, not_counted
from holter.analysis.steps.named_work import before_steps, moved
from holter.analysis.steps.outliers import outliers
from holter.analysis.steps.own_code import divided
from holter.analysis.steps.phases import evaluated, job_phases
from holter.analysis.steps.trainings import (
    begins,
    left_out,
    models,
    restarted,
    step_counts,
    told_apart,
    workers_began,
)
from holter.analysis.steps.warmup import steady
from holter.analysis.tensors.numbers import numbers
from holter.analysis.verdict.changes import resource_changes, step_changes
from holter.analysis.verdict.failure import headline
from holter.analysis.verdict.gathering import gather
from holter.analysis.verdict.job_verdict import verdict
from holter.analysis.verdict.ledger import BEFORE_RAY, compiling_steps, ledger, with_ledger
from holter.analysis.verdict.result import SMALLER
from holter.views.document import description_kept, profiled_steps, program, unattached
from holter.views.document.bill import bill_of
from holter.views.document.cost import cost, details
from holter.views.document.job_summary import job_summary
from holter.views.document.measured_runs import measured_runs
from holter.views.document.nodes import nodes_of
from holter.views.document.saved_tensors import saved_tensors
from holter.views.document.standing import placed
from holter.views.document.step_unit import step_unit
from holter.views.document.trace_description import describe_trace, is_trace
from holter.views.document.types.training import OutlierStep
from holter.views.document.types.values import row_of
from holter.views.document.types.wall_time import NamedWorkEntry
from holter.views.issues import weighed
from holter.views.jobs import RUNNING, why_not_running
from holter.views.tables import Stretches, steps_of, utilization_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from holter.analysis.steps.outliers import Outlier
    from holter.analysis.verdict.job_facts import VerdictFacts
    from holter.analysis.verdict.ledger import LedgerItem
    from holter.schema.table import Table
    from holter.store.trial import Trial
    from holter.views.document.types import Description, Diagnosis, TraceDescription
    from holter.views.document.types.job import JobSummary, SkippedFile
    from holter.views.document.types.training import (
        LoadingSummary,
        MetricStatistics,
        NumberSummary,
        PhaseLengths,
        StepSummary,
    )
    from holter.views.document.types.verdict import JobVerdict
    from holter.views.document.types.wall_time import ChangeEntry, GpuTimesEntry, LedgerEntry, ThreadEntry
    from holter.views.document.types.what_if import Replay

VERSION: Literal[1] = 1
_MOST_OUTLIERS = 20
_MOST_OWN_CODE = 20
_MOST_CHANGES = 20


def describe(
    trial: Trial,
    *,
    now_ns: int | None = None,
    price: float | None = None,
    machines: float | None = None,
    steps: Callable[[], Table] | None = None,
    in_detail: bool = False,
) -> Description:
    """Describe a job, running or finished; an unknown value is None or an empty list, never 0.

    Args:
        trial: The job's tables.
        now_ns: The current time for running jobs, nanoseconds since the epoch; by default that of the clock.
        price: The price of a machine per hour, for the bill; by default that of `holter run --price`.
        machines: The number of machines on the bill; by default the job's nodes.
        steps: Returns table `steps` from a caller that has it; called only if no description is kept.
        in_detail: Whether `window` has `mfu` and `detail` too, computed each time.

    Raises:
        ValueError: The price or the number of machines is negative or not finite.
    """
    described = description_kept.read(trial)
    if described is None:
        read = steps_of(trial) if steps is None else steps()
        described = _described(trial, time.time_ns() if now_ns is None else now_ns, read)
        description_kept.write(trial, described)
    if in_detail and (window := described["window"]):
        more = profiled_steps.in_detail(trial, described, window)
        described = {**described, "window": {**window, **more}}
    return {**described, "bill": bill_of(trial, described, price, machines)}


def _described(trial: Trial, now: int, steps: Table) -> Description:
    """Describe a job without its bill."""
    steps = with_early_evaluation(steps)
    manifest, nodes = trial.manifest, trial.nodes
    events = trial.table("events")
    stretches = Stretches.of(trial, int(manifest.get("start") or 0))
    samples = stretches.samples(trial)
    traced = is_trace(trial)
    profiled = None if traced else profiled_steps.read(trial)
    named = None if traced else stretches.named(trial)
    facts = gather(
        stretches.inside(steps),
        samples=samples,
        spans=stretches.loading(trial),
        named=named,
        events=events,
        nodes=nodes,
        profiled=profiled,
        python=(trial.table("python_functions"), trial.table("python_stacks")),
        running=why_not_running(trial.folder) is None,
        not_counted=(*not_counted(trial.sql(COUNTED).to_rows()), *left_out(events)),
        staged=bool(trial.sql(SENT).rows),
    )
    if facts.share("data_loading") >= SMALLER and facts.steady_steps:
        facts = replace(facts, measured=measured_runs(trial.folder))
    alone = program.read(events, samples, steps, trial.table("python_stacks"))
    mask = steady(steps)
    trained = models(events)
    worst = outliers(steps, mask=mask, windows=finishing(events), device_ns=device_ns(events), models=trained)
    if not stretches.whole:
        statistics = step_statistics(steps, mask, found=worst)
        facts = replace(
            facts,
            breakdown=divided(
                moved(only_seen(breakdown(steps, mask), facts.not_seen), facts.named_work),
                facts.iterating,
                facts.awaiting,
            ),
            statistics=statistics,
        )
    job = job_summary(manifest, nodes, steps, events, now)
    lengths = _phases(trial, job, job["start"], steps, now) if job["start"] and steps.rows else None
    items = []
    if lengths is not None and named is not None:
        times = cast("Mapping[str, float | None]", lengths)
        around = facts.around_checkpoints
        items = ledger(
            times,
            steps,
            worst,
            split=facts.breakdown or None,
            around=around,
            named=facts.named_work,
            before={**before_steps(named, int(steps["time"].min())), **_before_ray(events, job["start"])},
        )
    judged = _verdict(facts, trial, steps, items, lengths)
    if alone:
        judged = program.told(judged, alone)
    recording = cost(trial, events, steps, samples)
    if not steps.rows:
        framework = (job["framework"] or {}).get("name")
        judged = unattached.told(judged, recording["faults"], framework, ran=not trial.imported)
    judged = placed(judged, job, running=facts.running, steps=steps.rows, steady=facts.steady_steps)
    scalars = trial.table("scalars")  # only now: they take as much memory as the steps of a long job
    document: Description = {
        "schema": VERSION,
        "job": {**job, "headline": headline(manifest, events, scalars)},
        "nodes": nodes_of(
            trial, nodes, steps if steps.rows else events, (job["framework"] or {}).get("device")
        ),
        "ranks": _ranks(steps, events),
        "phases": lengths,
        "steps": _steps(worst, facts.statistics, steps, step_unit(trial, steps, events), restarted(events))
        if steps.rows
        else None,
        "numbers": cast("list[NumberSummary]", numbers(told_apart(scalars, begins(steps)))),
        "tensors": saved_tensors(trial),
        "breakdown": {part: share for part, share in facts.breakdown.items() if facts.shows(part)} or None,
        "gpu_times": cast("GpuTimesEntry", asdict(on_gpu)) if (on_gpu := gpu_times(events)) else None,
        "not_seen": list(facts.not_seen),
        "ledger": [cast("LedgerEntry", one.to_json()) for one in items],
        "threads": [cast("ThreadEntry", asdict(one)) for one in facts.threads],
        "own_code": [
            {
                "function": one.function,
                "file": one.file,
                "line": one.line,
                "pct": one.pct,
                "calls": one.calls,
                "waits_in": one.waits_in,
                "data_loading": one.iterates,
                "mostly_in": one.inner,
                "producer": {
                    "name": one.producer,
                    "function": one.produces[0] if one.produces else None,
                    "mostly_in": one.produces[1] if one.produces[1:] else None,
                }
                if one.producer
                else None,
            }
            for one in facts.own_code[:_MOST_OWN_CODE]
        ],
        "named_work": [row_of(one, NamedWorkEntry) for one in facts.named_work],
        "changes": [] if traced else _changes(steps.where(mask), steps, samples, trained),
        "dataloading": cast("LoadingSummary", facts.loading.to_json()) if facts.loading else None,
        "utilization": cast("list[MetricStatistics]", utilization_of(trial, samples, stretches)),
        "operators": profiled_steps.operators(facts.profiled) if facts.profiled else None,
        "window": profiled_steps.window(facts.profiled, profiled) if facts.profiled and profiled else None,
        "what_if": cast("Replay", facts.what_if.to_json()) if facts.what_if else None,
        "program": program.document(alone) if alone else None,
        "verdict": judged,
        "rules": weighed(list(trial.folder.evaluations().get("rules") or []), judged),
        "cost": program.with_samples(recording, alone),
        "bill": None,
        "looked_at_pct": 100.0 / stretches.every,
        "skipped": cast("list[SkippedFile]", trial.skipped),
    }
    return _with_trace(document, describe_trace(trial)) if traced else document


def _with_trace(document: Description, trace: TraceDescription) -> Description:
    """Replace what the steps tell: steps of a trace have no phases, its device and operator events do."""
    return {
        **document,
        "ranks": document["ranks"] or trace["ranks"],
        "breakdown": trace["breakdown"],
        "not_seen": [],
        "dataloading": trace["dataloading"],
        "operators": trace["operators"],
        "what_if": trace["what_if"],
        "verdict": trace["verdict"],
        "trace": trace["trace"],
    }


def diagnosis(description: Description | TraceDescription) -> Diagnosis:
    """Return what `holter diagnose --json` prints: the job's name, its verdict, breakdown and operators.

    A recorded job's diagnosis has its profiled window, an imported trace's diagnosis has the trace's numbers.
    """
    job = description["job"]
    found: Diagnosis = {
        "job": {"name": job["name"], "status": job["status"], "failure": job["failure"]},
        "schema": description["schema"],
        "verdict": description["verdict"],
        "breakdown": description["breakdown"],
        "not_seen": description["not_seen"],
        "dataloading": description["dataloading"],
        "skipped": description["skipped"],
        "operators": description["operators"],
        "what_if": description["what_if"],
    }
    if "trace" in description:
        ranks, steps, trace = description["ranks"], description["steps"], description["trace"]
        return {**found, "ranks": ranks, "steps": steps, "trace": trace}
    return {**found, "window": description["window"]}


def _verdict(
    facts: VerdictFacts, trial: Trial, steps: Table, items: list[LedgerItem], lengths: PhaseLengths | None
) -> JobVerdict:
    """Return the verdict. If damaged files lack the steps, the advice is to restore them, not to record."""
    after = (lengths["evaluation_s"] if lengths else None) or 0.0
    compiling = compiling_steps(steps) if steps.rows else 0
    led = with_ledger(verdict(facts), items, after, facts.framework, compiling)
    told = cast("JobVerdict", led.to_json())
    if trial.skipped and not steps.rows:
        text = "Some files of this job cannot be read, its steps may be in them: restore them from a copy."
        told["advice"] = [{"text": text, "expected_step_ms": None, "why": ""}]
    return told


def _changes(
    used: Table, steps: Table, samples: Table, trained: Mapping[int, Sequence[tuple[int, str]]]
) -> list[ChangeEntry]:
    """Return the changes that cost most, and all of resources, in order of time."""
    slower = sorted(step_changes(used, trained), key=lambda one: -(one.cost_pct or 0.0))[:_MOST_CHANGES]
    found = sorted([*slower, *resource_changes(samples, steps)], key=lambda one: one.time)
    return [cast("ChangeEntry", one.to_json()) for one in found]


def _before_ray(events: Table, start: int | None) -> dict[str, float]:
    """Return how long the job ran before its first worker of Ray Train did, seconds; empty for other jobs."""
    began = workers_began(events)
    return {} if began is None or start is None or began <= start else {BEFORE_RAY: (began - start) / 1e9}


def _ranks(steps: Table, events: Table) -> list[int]:
    """Return the ranks that took steps; of a job without steps, the ranks of its processes."""
    seen = steps["rank"] if steps.rows else events["rank"][events["kind"] == "process"]
    return [int(rank) for rank in np.unique(seen) if rank >= 0]


def _phases(trial: Trial, job: JobSummary, start: int, steps: Table, now: int) -> PhaseLengths:
    last = int((steps["time"] + steps["duration"]).max())
    after = trial.table(
        "spans",
        where=f"worker = -1 AND thread = 0 AND phase IN ('forward', 'data_loading') AND time >= {last}",
        start_ns=last,
    )
    ranks = np.unique(after["rank"]).tolist()
    longest = max((evaluated(after.where(after["rank"] == rank)) for rank in ranks), default=0)
    # The newest steps of a running job are recorded a little later: the time since then is no finalization.
    until = last + longest if job["status"] in RUNNING else now
    return cast("PhaseLengths", job_phases(start, job["end"] or until, steps, longest))


def finishing(events: Table) -> list[tuple[int, int, int]]:
    """Return rank, begin and end (ns) of the time in which holter finished each profiling window."""
    return [
        (int(one["rank"]), one["end"], one["done"])
        for one in details(events, "window")
        if isinstance(one.get("end"), int) and isinstance(one.get("done"), int)
    ]


def _steps(
    worst: list[Outlier], statistics: dict[str, float | int], steps: Table, unit: str | None, again: bool
) -> StepSummary:
    names = ("mean_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "max_ms", "per_second")
    found = {
        "outliers": [row_of(outlier, OutlierStep) for outlier in worst[:_MOST_OUTLIERS]],
        "outlier_count": len({outlier.step for outlier in worst}),
        "trainings": step_counts(steps),
        "restarted": again,
        "at_once": max(int(np.median(steps["at_once"])), 1) if "at_once" in steps else 1,
        "unit": unit,
    }
    return cast("StepSummary", dict.fromkeys(names) | statistics | found)
