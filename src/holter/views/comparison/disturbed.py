"""Tells what slowed one of two jobs from outside, and whether their step times compare all the same."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, TypedDict, cast

from msgspec import convert

from holter.analysis.jobs.disturbance import READ, SPREAD, Conditions, Disturbance, disturbance
from holter.analysis.jobs.disturbance import conditions as conditions_of
from holter.analysis.verdict.evidence import ms, pct
from holter.views.tables import Stretches

if TYPE_CHECKING:
    from holter.schema.table import Table
    from holter.store.trial import Trial

_METRICS = f"metric IN ({', '.join(repr(name) for name in READ)})"


class ComparedConditions(TypedDict):
    """What the steady steps of a job ran under; null where it was not recorded."""

    step_ms: float | None
    cpu_ms: float | None
    waited_pct: float | None
    workers_waited_pct: float | None
    several_threads: bool
    foreign_cores: float | None
    cores: float | None
    programs: list[str]
    throttled_pct: float | None
    gpu_slowed_pct: float | None
    clock: float | None
    unread: bool


NOT_COMPARABLE = "not comparable by wall time"


class ComparedDisturbance(TypedDict):
    """What slowed the baseline or the job from outside, and what that means."""

    before: list[str]
    after: list[str]
    alike: bool
    comparable: bool
    cpu_ratio: float | None
    sentence: str


def read_conditions(trial: Trial, steps: Table) -> ComparedConditions:
    """Read what the steady steps of a job ran under; of a long job in stretches."""

    def samples(begin: int, end: int) -> Table:
        stretches = Stretches.of(trial, begin, tables=("samples",), where=_METRICS)
        where = _METRICS if stretches.whole else f"{_METRICS} AND {stretches.where}"
        return trial.table("samples", where=where, start_ns=begin, end_ns=end)

    found = asdict(conditions_of(steps, samples, trial.nodes, trial.manifest.get("interval_ms")))
    return cast("ComparedConditions", found | {"programs": list(found["programs"])})


def between(before: ComparedConditions, after: ComparedConditions) -> Disturbance | None:
    """Return what slowed one of two jobs from outside; None where nothing is known to have."""
    return disturbance(convert(before, Conditions), convert(after, Conditions))


def told(
    found: Disturbance | None, names: tuple[str, str], ratio: tuple[float, float] | None
) -> ComparedDisturbance | None:
    """Return the disturbance as the document has it.

    Args:
        found: What `between` returned.
        names: The baseline and the job.
        ratio: The interval of the ratio of their step times; None if it is unknown.
    """
    if found is None:
        return None
    return {
        "before": list(found.causes[0]),
        "after": list(found.causes[1]),
        "alike": found.alike,
        "comparable": ratio is not None and found.stands(*ratio),
        "cpu_ratio": found.cpu_ratio,
        "sentence": "; ".join([*_causes(found, names), *_cpu_time(found)]),
    }


def _causes(found: Disturbance, names: tuple[str, str]) -> list[str]:
    """Say of each cause which job it slowed more, and by how much."""
    texts = []
    for cause in dict.fromkeys((*found.causes[1], *found.causes[0])):
        sides = [(found.after, names[1]), (found.before, names[0])]
        if cause == "unread":
            job = next(name for side, name in sides if side.unread)
            texts.append(
                f"the conditions of {job} are unknown: holter has no reading of its steady steps, as where "
                "other programs leave it no core"
            )
            continue
        if cause == "shared":
            side, job = max(sides, key=lambda one: one[0].cpu_ms or 0.0)
            texts.append(f"other programs used {side.foreign_cores:.1f} of {side.cores:g} cores beside {job}")
            continue
        if cause == "clock":
            (slow, job), (fast, other) = sorted(sides, key=lambda side: side[0].clock or 0.0)
            ratio = (slow.clock or 0.0) / (fast.clock or 1.0)
            texts.append(f"the cores of {job} ran at {pct(100 * ratio)} of the clock speed of {other}")
            continue
        worse, less = sorted(sides, key=lambda side: -(_share(cause, side[0]) or 0.0))
        here, there = _share(cause, worse[0]) or 0.0, _share(cause, less[0])
        beside = f" ({less[1]}: {'unknown' if there is None else pct(there)})"
        if cause == "cores":
            who = worse[1] if here == worse[0].waited_pct else f"a data-loader worker of {worse[1]}"
            text = f"{who} waited {pct(here)} of its time for a core{beside}{_programs(worse[0])}"
        elif cause == "quota":
            text = f"the CPU quota stopped {worse[1]} in {pct(here)} of the scheduling periods{beside}"
        else:
            text = f"heat or a fault lowered the GPU clocks of {worse[1]} {pct(here)} of the time{beside}"
        texts.append(text)
    return texts


def _share(cause: str, job: Conditions) -> float | None:
    if cause == "cores":
        known = [x for x in (job.waited_pct, job.workers_waited_pct) if x is not None]
        return max(known, default=None)
    return job.throttled_pct if cause == "quota" else job.gpu_slowed_pct


def _programs(job: Conditions) -> str:
    if job.foreign_cores is None:
        return ""
    names = f" ({', '.join(job.programs)})" if job.programs else ""
    return f", as other programs used {job.foreign_cores:.1f} cores{names}"


def _cpu_time(found: Disturbance) -> list[str]:
    """Compare the CPU time of the training for a step, which a wait for a core does not change."""
    ratio, old, new = found.cpu_ratio, found.before.cpu_ms, found.after.cpu_ms
    if ratio is None or old is None or new is None:
        return []
    times = f"({ms(old)} and {ms(new)} for a step)"
    if 1 / (1 + SPREAD) <= ratio <= 1 + SPREAD:
        return [f"CPU times are about equal {times}"]
    text = f"CPU time per step {'grew' if ratio > 1 else 'fell'} by {pct(100 * abs(ratio - 1))} {times}"
    if found.before.several_threads or found.after.several_threads:
        text += ", which includes threads that wait for one another"
    return [text]
