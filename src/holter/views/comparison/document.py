"""Compares jobs: the differences, their certainty, and the money and time that they save."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from holter.analysis.jobs.comparison import FEWEST, TIMED, parts_ms, step_change, step_times
from holter.analysis.jobs.cost import saving
from holter.analysis.steps.durations import epoch_s
from holter.analysis.verdict.evidence import counted
from holter.analysis.verdict.job_advice import RECORD_STEPS
from holter.views.document.description import describe
from holter.views.tables import steps_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holter.analysis.jobs.comparison import Statistic, StepTimeChange
    from holter.store.trial import Trial
    from holter.views.document.types.training import MetricStatistics

VERSION = 1
_Step = Literal["count", "mean_ms", "p50_ms", "p95_ms", "p99_ms", "per_second"]
_STEPS: tuple[_Step, ...] = ("count", "mean_ms", "p50_ms", "p95_ms", "p99_ms", "per_second")


def compare(
    trials: Sequence[Trial],
    *,
    price: float | None = None,
    epochs: float | None = None,
    nodes: float | None = None,
    epoch_steps: int | None = None,
    statistic: Statistic = "median",
) -> dict[str, Any]:
    """Compare jobs with the first one: the document that `holter compare --json` prints.

    Args:
        trials: Two jobs or more; the first is the baseline.
        price: What one machine costs an hour.
        epochs: How many epochs a whole run has; without it, what is saved is said of the baseline's steps.
        nodes: How many machines run it; those of the job where not given.
        epoch_steps: Steps of an epoch, for jobs in which epochs cannot be seen.
        statistic: What of the step times is compared.

    Returns:
        `jobs`, one entry each, and `changes`, one for every job after the first. Unknown is None.

    Raises:
        ValueError: A number is negative or not finite, or there are fewer than two jobs.
    """
    if len(trials) < 2:
        raise ValueError("a comparison takes two jobs or more")
    saving(0.0, 0.0, epochs=epochs or 0.0, price=price, nodes=nodes or 0.0)  # refuses what makes no sense
    jobs, times, parts = [], [], []
    for trial in trials:
        jobs.append(_job(trial, epoch_steps, price, nodes))
        # Steps of long jobs are much to hold: only the columns that are asked for, and not for long.
        times.append(step_times(steps_of(trial, columns=TIMED)))
        parts.append(parts_ms(steps_of(trial)))
        _bill(jobs[-1], price, nodes)
    changes = []
    for job, ours, spent in zip(jobs[1:], times[1:], parts[1:], strict=True):
        change = step_change(times[0], ours, statistic)
        changes.append(
            {
                "job": job["name"],
                "step": None if change is None else _step(change, statistic),
                "parts": _parts(parts[0], spent),
                "saving": _saving(jobs[0], job, price=price, epochs=epochs, nodes=nodes),
                "changed": _changed(jobs[0], job),
                "missing": [
                    *_unread(jobs[0]),
                    *_unread(job),
                    *_missing((jobs[0], times[0]), (job, ours)),
                    *_no_epochs(jobs[0], job, epochs),
                ],
            }
        )
    return {"schema": VERSION, "baseline": jobs[0]["name"], "jobs": jobs, "changes": changes}


def _job(trial: Trial, epoch_steps: int | None, price: float | None, nodes: float | None) -> dict[str, Any]:
    told = describe(trial, price=price, machines=nodes)
    steps, phases, verdict = told["steps"], told["phases"], told["verdict"]
    loading, seconds = told["dataloading"], told["job"]["duration_s"]
    seen = epoch_s(trial.table("spans", where="phase = 'data_loading' AND worker = -1"))
    if epoch_steps and steps and steps["mean_ms"]:
        epoch: float | None = epoch_steps * steps["mean_ms"] / 1000
        source = "epoch_steps"
    else:
        epoch, source = seen, "loader"
    return {
        "name": told["job"]["name"],
        "status": told["job"]["status"],
        "command": told["job"]["command"],
        "framework": told["job"]["framework"],
        "hardware": [
            {
                "cpus": node["cpus"],
                "memory_bytes": node["memory_bytes"],
                "gpus": [gpu.get("name") for gpu in node["gpus"] or []],
            }
            for node in told["nodes"]
        ],
        "ranks": len(told["ranks"]),
        "workers": loading["workers"] if loading else None,
        "recorded": trial.manifest.get("recorded"),
        "suspect": verdict["suspect"],
        "sentence": verdict["sentence"],
        "gpu_pct": _middle(told["utilization"], "gpu.util"),
        "cpu_pct": _middle(told["utilization"], "cpu.util"),
        "steps": {key: steps[key] if steps else None for key in _STEPS},
        "breakdown": told["breakdown"],
        "epoch_h": None if epoch is None else epoch / 3600,
        "epoch_from": None if epoch is None else source,
        "duration_h": None if seconds is None else seconds / 3600,
        "phases": {
            "initialization": phases["initialization_s"] if phases else None,
            "training_loop": phases["training_loop_s"] if phases else None,
            "evaluation": phases["evaluation_s"] if phases else None,
            "finalization": phases["finalization_s"] if phases else None,
        },
        "bill": told["bill"],
        "skipped": told["skipped"],
        "issues": [
            rule["name"] for rule in told["rules"] if any(i["severity"] != "info" for i in rule["issues"])
        ],
    }


def _middle(rows: list[MetricStatistics], metric: str) -> float | None:
    found = [row["p50"] for row in rows if row["metric"] == metric and row["p50"] is not None]
    return sum(found) / len(found) if found else None


def _bill(job: dict[str, Any], price: float | None, nodes: float | None) -> None:
    """Add the cost of the job and of each part of its steps."""
    machines = nodes if nodes is not None else len(job["hardware"]) or 1
    known = price is not None and job["duration_h"] is not None
    cost = saving(job["duration_h"], 0.0, price=price, nodes=machines).money_saved if known else None
    loop = job["phases"]["training_loop"]
    job["cost"] = cost
    job["cost_of_parts"] = None
    if price is not None and loop is not None and job["breakdown"]:
        hour = price * machines * loop / 3600
        job["cost_of_parts"] = {part: hour * share / 100 for part, share in job["breakdown"].items()}


def _step(change: StepTimeChange, statistic: Statistic) -> dict[str, Any]:
    return {
        "statistic": statistic,
        "before_ms": change.before_ms,
        "after_ms": change.after_ms,
        "ratio": change.ratio,
        "ratio_low": change.low,
        "ratio_high": change.high,
        "certain": change.certain,
    }


def _parts(before: Mapping[str, float], after: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return each part's mean time in a step, most changed first; without parts that never were."""
    if not before or not after:
        return []
    rows = [
        {"part": part, "before_ms": old, "after_ms": after[part], "difference_ms": after[part] - old}
        for part, old in before.items()
        if old or after[part]
    ]
    return sorted(rows, key=lambda row: -abs(float(row["difference_ms"])))


def _saving(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    *,
    price: float | None,
    epochs: float | None,
    nodes: float | None,
) -> dict[str, Any] | None:
    """Return the saving of a whole run: of the given epochs, or else of the baseline's number of steps."""
    if epochs is not None and (before["epoch_h"] is None or after["epoch_h"] is None):
        return None
    if epochs is not None:
        count, hours = epochs, [job["epoch_h"] for job in (before, after)]
    else:
        count, hours = before["steps"]["count"], [_step_h(job) for job in (before, after)]
    if not count or None in hours:
        return None
    machines = nodes if nodes is not None else len(after["hardware"]) or 1
    found = saving(hours[0], hours[1], epochs=count, price=price, nodes=machines)
    return {
        "of": "steps" if epochs is None else "epochs",
        "count": count,
        "price": price,
        "nodes": machines,
        "hours_before": found.hours_before,
        "hours_after": found.hours_after,
        "hours_saved": found.hours_saved,
        "saved_pct": found.saved_pct,
        "speedup": found.speedup,
        "money_saved": found.money_saved,
    }


def _step_h(job: Mapping[str, Any]) -> float | None:
    mean: float | None = job["steps"]["mean_ms"]
    return None if mean is None else mean / 3.6e6


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return other differences: command, framework, hardware, ranks, workers, code, packages, settings."""
    whats = ("command", "framework", "hardware", "ranks", "workers")
    found = [(what, before[what], after[what]) for what in whats]
    old, new = before["recorded"] or {}, after["recorded"] or {}
    for what in sorted({*old, *new}):
        one, other = old.get(what), new.get(what)
        if isinstance(one or {}, dict) and isinstance(other or {}, dict):
            keys = sorted({*(one or {}), *(other or {})})
            found += [(f"{what} {key}", (one or {}).get(key), (other or {}).get(key)) for key in keys]
        else:
            found.append((what, one, other))
    return [{"what": what, "before": one, "after": other} for what, one, other in found if one != other]


def _unread(job: Mapping[str, Any]) -> list[str]:
    """Name the unreadable files of a job; their rows are missing from the comparison."""
    files = job["skipped"]
    if not files:
        return []
    more = f", and {len(files) - 1} more: `holter describe {job['name']}` lists them" if files[1:] else ""
    first = f"{files[0]['file']}: {files[0]['why']}"
    return [f"{counted(len(files), 'file')} of {job['name']} cannot be read: {first}{more}"]


def _missing(*timed: tuple[Mapping[str, Any], Any]) -> list[str]:
    return [
        f"{name} has {len(times)} steady steps{' in the files that can be read' * bool(job['skipped'])}; "
        f"{FEWEST} are needed to compare step times"
        + ("" if job["skipped"] else ": let it train longer" if len(times) else f": {RECORD_STEPS}")
        for name, (job, times) in zip(("the baseline", "the other job"), timed, strict=True)
        if len(times) < FEWEST
    ]


def _no_epochs(before: Mapping[str, Any], after: Mapping[str, Any], epochs: float | None) -> list[str]:
    """Explain why the time of the given epochs is unknown."""
    unseen = [job["name"] for job in (before, after) if job["epoch_h"] is None]
    if epochs is None or not unseen:
        return []
    names = " and ".join(dict.fromkeys(unseen))
    return [
        f"what {epochs:,g} epochs take is not known: no loader of {names} was seen to begin a second epoch; "
        "say how many steps an epoch has: `--epoch-steps`"
    ]
