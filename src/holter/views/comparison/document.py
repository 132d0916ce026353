"""Compares jobs: the differences, their certainty, and the money and time that they save."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal, cast

from holter.analysis.jobs.comparison import FEWEST, TIMED, parts_ms, step_change, step_times
from holter.analysis.jobs.cost import saving
from holter.analysis.steps.durations import epoch_s
from holter.analysis.verdict.evidence import counted
from holter.analysis.verdict.job_advice import RECORD_STEPS
from holter.views.comparison.disturbed import between, read_conditions
from holter.views.comparison.disturbed import told as told_disturbance
from holter.views.comparison.own_code import functions
from holter.views.comparison.tensors import tensor_changes
from holter.views.comparison.traces import TraceWork, trace_change, trace_work
from holter.views.document.description import describe
from holter.views.tables import steps_of
from holter.views.wording import unread_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Sized

    from holter.analysis.jobs.comparison import Statistic, StepTimeChange
    from holter.store.trial import Trial
    from holter.views.comparison.disturbed import ComparedConditions
    from holter.views.comparison.own_code import ComparedFunction
    from holter.views.comparison.types import (
        ComparedJob,
        ComparedPart,
        ComparedStep,
        Comparison,
        Difference,
        JobChange,
        RunSaving,
    )
    from holter.views.document.types.training import MetricStatistics

VERSION = 1
_Step = Literal["count", "mean_ms", "p50_ms", "p95_ms", "p99_ms", "per_second"]
_COMPARED: tuple[Literal["command", "framework", "hardware", "ranks", "workers"], ...] = (
    "command", "framework", "hardware", "ranks", "workers"
)  # fmt: skip
_STEPS: tuple[_Step, ...] = ("count", "mean_ms", "p50_ms", "p95_ms", "p99_ms", "per_second")


def compare(
    trials: Sequence[Trial],
    *,
    price: float | None = None,
    epochs: float | None = None,
    nodes: float | None = None,
    epoch_steps: int | None = None,
    statistic: Statistic = "median",
    tensors: bool = False,
    perturbed: Trial | None = None,
) -> Comparison:
    """Compare jobs with the first one: the document that `holter compare --json` prints.

    Args:
        trials: Two jobs or more; the first is the baseline.
        price: The price of a machine per hour.
        epochs: The number of epochs of a whole run; without it, the saving is that of the baseline's steps.
        nodes: The number of machines; by default the nodes of the job.
        epoch_steps: Steps of an epoch, for jobs in which epochs cannot be seen.
        statistic: The compared statistic of the step times.
        tensors: Also find the first difference of the tensors.
        perturbed: A job that differs from the baseline in round-off only, for `tensors`.

    Raises:
        ValueError: A number is negative or not finite, or there are fewer than two jobs.
    """
    if len(trials) < 2:
        raise ValueError("a comparison takes two jobs or more")
    saving(0.0, 0.0, epochs=epochs or 0.0, price=price, nodes=nodes or 0.0)  # refuses what makes no sense
    jobs, times, parts, works = [], [], [], []
    for trial in trials:
        # Steps of long jobs take much memory: only the needed columns are read, one job at a time.
        timed = steps_of(trial, columns=TIMED)
        jobs.append(_job(trial, read_conditions(trial, timed), epoch_steps, price, nodes))
        times.append(step_times(timed))
        parts.append(parts_ms(steps_of(trial)))
        works.append(trace_work(trial))
    changes: list[JobChange] = []
    differences = tensor_changes(trials, perturbed) if tensors else [None] * (len(trials) - 1)
    for job, ours, spent, work, differs in zip(
        jobs[1:], times[1:], parts[1:], works[1:], differences, strict=True
    ):
        change = step_change(times[0], ours, statistic)
        unread = [*_unread(jobs[0]), *_unread(job)] if differs is None else differs["unread"]
        found = between(jobs[0]["conditions"], job["conditions"])
        names, interval = (
            (jobs[0]["name"], job["name"]),
            None if change is None else (change.low, change.high),
        )
        changes.append(
            {
                "job": job["name"],
                "step": None if change is None else _step(change, statistic),
                "disturbance": told_disturbance(found, names, interval),
                "parts": _parts(parts[0], spent),
                "own_code": _functions(jobs[0], job),
                "saving": _saving(jobs[0], job, price=price, epochs=epochs, nodes=nodes),
                "changed": _changed(jobs[0], job),
                "traces": trace_change(works[0], work),
                "tensors": differs,
                "missing": [
                    *unread,
                    *_missing((jobs[0], times[0], works[0]), (job, ours, work)),
                    *_no_epochs(jobs[0], job, epochs),
                ],
            }
        )
    return {"schema": VERSION, "baseline": jobs[0]["name"], "jobs": jobs, "changes": changes}


def _job(
    trial: Trial,
    conditions: ComparedConditions,
    epoch_steps: int | None,
    price: float | None,
    nodes: float | None,
) -> ComparedJob:
    told = describe(trial, price=price, machines=nodes)
    steps, phases, verdict = told["steps"], told["phases"], told["verdict"]
    loading, seconds = told["dataloading"], told["job"]["duration_s"]
    seen = epoch_s(trial.table("spans", where="phase = 'data_loading' AND worker = -1"))
    epoch = seen
    source: Literal["epoch_steps", "loader"] | None = None if seen is None else "loader"
    if epoch_steps and steps and steps["mean_ms"]:
        epoch, source = epoch_steps * steps["mean_ms"] / 1000, "epoch_steps"
    machines = nodes if nodes is not None else len(told["nodes"]) or 1
    loop_s = phases["training_loop_s"] if phases else None
    cost_of_parts = None
    if price is not None and loop_s is not None and told["breakdown"]:
        loop = price * machines * loop_s / 3600
        cost_of_parts = {part: loop * share / 100 for part, share in told["breakdown"].items()}
    return {
        "name": told["job"]["name"],
        "status": told["job"]["status"],
        "command": told["job"]["command"],
        "framework": told["job"]["framework"],
        "hardware": [
            {
                "cpus": node["cpus"],
                "memory_bytes": node["memory_bytes"],
                "gpus": [gpu["name"] for gpu in node["gpus"] or []],
            }
            for node in told["nodes"]
        ],
        "ranks": len(told["ranks"]),
        "workers": loading["workers"] if loading else None,
        "recorded": trial.manifest.get("recorded"),
        "headline": told["job"]["headline"],
        "suspect": verdict["suspect"],
        "sentence": verdict["sentence"],
        "gpu_pct": _middle(told["utilization"], "gpu.util"),
        "cpu_pct": _middle(told["utilization"], "cpu.util"),
        "steps": {key: steps[key] if steps else None for key in _STEPS},
        "breakdown": told["breakdown"],
        "epoch_h": None if epoch is None else epoch / 3600,
        "epoch_from": source,
        "duration_h": None if seconds is None else seconds / 3600,
        "phases": {
            "initialization": phases["initialization_s"] if phases else None,
            "training_loop": loop_s,
            "evaluation": phases["evaluation_s"] if phases else None,
            "finalization": phases["finalization_s"] if phases else None,
        },
        "bill": told["bill"],
        "skipped": told["skipped"],
        "issues": [
            rule["name"] for rule in told["rules"] if any(i["severity"] != "info" for i in rule["issues"])
        ],
        "cost": price * machines * seconds / 3600 if price is not None and seconds is not None else None,
        "cost_of_parts": cost_of_parts,
        "conditions": conditions,
        "own_code": told["own_code"],
    }


def _middle(rows: list[MetricStatistics], metric: str) -> float | None:
    found = [row["p50"] for row in rows if row["metric"] == metric and row["p50"] is not None]
    return sum(found) / len(found) if found else None


def _step(change: StepTimeChange, statistic: Statistic) -> ComparedStep:
    return {
        "statistic": statistic,
        "before_ms": change.before_ms,
        "after_ms": change.after_ms,
        "ratio": change.ratio,
        "ratio_low": change.low,
        "ratio_high": change.high,
        "certain": change.certain,
    }


def _parts(before: Mapping[str, float], after: Mapping[str, float]) -> list[ComparedPart]:
    """Return each part's mean time in a step, most changed first; without parts that never were."""
    if not before or not after:
        return []
    rows: list[ComparedPart] = [
        {"part": part, "before_ms": old, "after_ms": after[part], "difference_ms": after[part] - old}
        for part, old in before.items()
        if old or after[part]
    ]
    return sorted(rows, key=lambda row: -abs(row["difference_ms"]))


def _functions(before: ComparedJob, after: ComparedJob) -> list[ComparedFunction]:
    old, new = (job["steps"]["mean_ms"] for job in (before, after))
    return functions(before["own_code"], old, after["own_code"], new)


def _saving(
    before: ComparedJob,
    after: ComparedJob,
    *,
    price: float | None,
    epochs: float | None,
    nodes: float | None,
) -> RunSaving | None:
    """Return the saving of a whole run: of the given epochs, or else of the baseline's number of steps."""
    if epochs is None:
        count, old, new = before["steps"]["count"], _step_h(before), _step_h(after)
    else:
        count, old, new = epochs, before["epoch_h"], after["epoch_h"]
    if not count or old is None or new is None:
        return None
    machines = nodes if nodes is not None else len(after["hardware"]) or 1
    found = asdict(saving(old, new, epochs=count, price=price, nodes=machines))
    about = {"of": "steps" if epochs is None else "epochs", "count": count, "price": price, "nodes": machines}
    return cast("RunSaving", about | found)


def _step_h(job: ComparedJob) -> float | None:
    mean = job["steps"]["mean_ms"]
    return None if mean is None else mean / 3.6e6


def _changed(before: ComparedJob, after: ComparedJob) -> list[Difference]:
    """Return other differences: command, framework, hardware, ranks, workers, code, packages, settings."""
    found: list[tuple[str, Any, Any]] = [(what, before[what], after[what]) for what in _COMPARED]
    old, new = before["recorded"] or {}, after["recorded"] or {}
    for what in sorted({*old, *new}):
        one, other = old.get(what) or {}, new.get(what) or {}
        if isinstance(one, dict) and isinstance(other, dict):
            found += [(f"{what} {key}", one.get(key), other.get(key)) for key in sorted({*one, *other})]
        else:
            found.append((what, one, other))
    return [{"what": what, "before": one, "after": other} for what, one, other in found if one != other]


def _unread(job: ComparedJob) -> list[str]:
    """Name the unreadable files of a job; their rows are missing from the comparison."""
    name, files = job["name"], job["skipped"]
    return [unread_text(name, files, f"`holter describe {name}` lists them")] if files else []


def _missing(*timed: tuple[ComparedJob, Sized, TraceWork | None]) -> list[str]:
    return [
        f"{name} has {counted(len(times), 'steady step')}"
        f"{' in the files that can be read' * bool(job['skipped'])}; "
        f"{FEWEST} are needed to compare step times"
        + ("" if job["skipped"] else f": {_more_steps(times, work)}")
        for name, (job, times, work) in zip(("the baseline", "the other job"), timed, strict=True)
        if len(times) < FEWEST
    ]


def _more_steps(times: Sized, work: TraceWork | None) -> str:
    if work is not None:
        return "profile more steps" if len(times) else "call profiler.step() in the loop when you profile"
    return "let it train longer" if len(times) else RECORD_STEPS


def _no_epochs(before: ComparedJob, after: ComparedJob, epochs: float | None) -> list[str]:
    """Explain why the time of the given epochs is unknown."""
    unseen = [job["name"] for job in (before, after) if job["epoch_h"] is None]
    if epochs is None or not unseen:
        return []
    names = " and ".join(dict.fromkeys(unseen))
    return [
        f"what {epochs:,g} epochs take is not known: no loader of {names} was seen to begin a second epoch; "
        "say how many steps an epoch has: `--epoch-steps`"
    ]
