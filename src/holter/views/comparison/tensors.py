"""Compares the tensors of two jobs: the first step, module and tensor that round-off does not explain."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from holter.analysis.slow_group import ranks_text
from holter.analysis.tensors.execution_order import Stage
from holter.analysis.tensors.first_difference import Noise, Search
from holter.analysis.verdict.evidence import counted, steps_text
from holter.views.comparison.tensor_pairs import Pairs
from holter.views.comparison.tensor_recording import TensorRecording
from holter.views.wording import natural, unread_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holter.analysis.tensors.first_difference import FirstDifference, Observation
    from holter.store.trial import Trial
    from holter.views.comparison.tensor_types import StepDifference, TensorChange, TensorDifference

_NAMED = 4
"""Names in a sentence about missing tensors."""
_LISTED = 20
"""Further differences, and levels of steps, in the document."""
_SAVE = "`--save weights@1:end=10 --save gradients@1:end=10 --save layers@1:end=10`"


def tensor_changes(trials: Sequence[Trial], perturbed: Trial | None = None) -> list[TensorChange]:
    """Compare the tensors of jobs with those of the first one.

    Raises:
        ValueError: There are fewer than two jobs.
    """
    if len(trials) < 2:
        raise ValueError("a comparison takes two jobs or more")
    before = TensorRecording(trials[0])
    noise = None if perturbed is None else TensorRecording(perturbed)
    return [tensor_change(before, TensorRecording(trial), noise) for trial in trials[1:]]


def tensor_change(
    before: TensorRecording, after: TensorRecording, perturbed: TensorRecording | None = None
) -> TensorChange:
    """Compare two jobs, tensor by tensor, up to the first step with a difference beyond round-off.

    Args:
        before: The baseline.
        after: The other job.
        perturbed: A job that differs from the baseline in round-off only.
    """
    pairs = Pairs(before, after)
    noise = None
    if perturbed is not None:
        others = Pairs(before, perturbed)
        noise = Noise(one for step in others.steps for one in others.observations(step))
    search = Search(depth=pairs.depth, spacing=pairs.spacing, elements=pairs.elements, noise=noise)
    seen: dict[str, set[str]] = {}
    steps: list[int] = []
    precision: Observation | None = None
    previous: list[Observation] = []
    for step in pairs.steps:
        found = pairs.observations(step)
        if not found:
            continue
        steps.append(step)
        for one in found:
            seen.setdefault(one.by, set()).add(one.name)
            if precision is None and _other_type(one):
                precision = one
        if not search.step(found):
            break
        previous = found
    judged = search.found
    beyond = _others(judged)
    return {
        "baseline": before.name,
        "job": after.name,
        "result": judged.outcome,
        "first": _told(judged.first, judged.tolerance),
        "origin": _told(_origin(judged)),
        "bits": _told(judged.bits),
        "agree": _agreeing(judged.agreeing),
        "within": _within(judged.agreeing),
        "previous": _previous(judged, previous),
        "inputs": _known(judged, "input"),
        "weights": _known(judged, "parameter"),
        "last_equal": _last_equal(judged),
        "beyond": [told for one in beyond[:_LISTED] if (told := _told(one))],
        "beyond_count": len(beyond),
        "levels": _levels(judged),
        "precision": _told(precision),
        "perturbed": perturbed.name if perturbed is not None else None,
        "compared": {
            "steps": len(steps),
            "first_step": steps[0] if steps else None,
            "last_step": steps[-1] if steps else None,
            "later_steps": len(pairs.steps) - len(steps),
            "tensors": len(set().union(*seen.values())) if seen else 0,
            "by": {kind: len(names) for kind, names in sorted(seen.items())},
        },
        "unread": _unread(before, after, *([] if perturbed is None else [perturbed])),
        "missing": [
            *_silent(noise, before, perturbed),
            *_missing(pairs),
        ],
    }


def _other_type(one: Observation) -> bool:
    # Numbers, data and gradients near 0 may have few bits in any type.
    shows = one.by != "number" and one.place.stage in (Stage.STATE, Stage.FORWARD)
    return shows and all(one.types) and one.types[0] != one.types[1]


def _told(one: Observation | None, tolerance: float = math.nan) -> TensorDifference | None:
    if one is None:
        return None
    return {
        "step": one.step,
        "mode": one.mode,
        "rank": one.rank,
        "tensor": one.name,
        "module": one.place.module,
        "role": one.role,
        "role_after": one.role_after,
        "stage": one.place.stage.name.lower(),
        "kind": one.place.kind,
        "by": one.by,
        "difference": one.apart if math.isfinite(one.apart) else None,
        "why": one.why,
        "tolerance": tolerance if math.isfinite(tolerance) else None,
        "before": one.before if math.isfinite(one.before) else None,
        "after": one.after if math.isfinite(one.after) else None,
        "types": list(one.types),
    }


def _origin(judged: FirstDifference) -> Observation | None:
    """Return the first difference of all, if only its fingerprint is known and `first` follows from it."""
    first, bits = judged.first, judged.bits
    if first is None or bits is None or bits is first or bits.sized or bits.step != first.step:
        return None
    return bits


def _others(judged: FirstDifference) -> list[Observation]:
    """Return the further tensors beyond the tolerance, each name once."""
    named: dict[str, Observation] = {}
    for one in judged.beyond:
        named.setdefault(one.name, one)
    if judged.first is not None:
        named.pop(judged.first.name, None)
    return list(named.values())


def _agreeing(agreeing: Sequence[Observation]) -> list[str]:
    stages = dict.fromkeys(one.place.stage for one in agreeing)
    return [
        stage.name.lower()
        for stage in stages
        if all(one.same for one in agreeing if one.place.stage is stage)
    ]


def _within(observations: Iterable[Observation]) -> list[str]:
    return [
        stage.name.lower() for stage in dict.fromkeys(one.place.stage for one in observations if one.sized)
    ]


def _previous(judged: FirstDifference, observations: Sequence[Observation]) -> list[str]:
    first = judged.first
    directly = first is not None and observations and observations[0].step == first.step - 1
    return _within(observations) if directly else []


def _known(judged: FirstDifference, kind: str) -> Literal["equal", "within", "differ", "unknown"]:
    """Return whether the inputs or parameters of the module of the first difference agree."""
    first = judged.first
    if first is None or not first.place.module:
        return "unknown"
    module = first.place.module

    def belongs(one: Observation) -> bool:
        own = one.place.module == module or one.place.module.startswith(f"{module}.")
        return own and one.place.kind == kind and (one.mode, one.rank) == (first.mode, first.rank)

    own = [one for one in judged.agreeing if belongs(one)]
    if any(belongs(one) for one in judged.beyond):
        return "differ"
    if not own:
        return "unknown"
    return "equal" if all(one.same for one in own) else "within"


def _last_equal(judged: FirstDifference) -> str | None:
    first = judged.first
    if first is None:
        return None
    stage, who = first.place.stage, (first.mode, first.rank)
    own = [
        one
        for one in judged.agreeing
        if one.place.stage is stage and (one.mode, one.rank) == who and one.sized
    ]
    return own[-1].name if own else None


def _levels(judged: FirstDifference) -> list[StepDifference]:
    levels = judged.levels
    every = -(-len(levels) // _LISTED) or 1
    kept = [*levels[:-1:every], *levels[-1:]]
    return [{"step": one.step, "difference": one.apart, "tensor": one.name} for one in kept]


def _silent(noise: Noise | None, before: TensorRecording, perturbed: TensorRecording | None) -> list[str]:
    if noise is None or perturbed is None or not noise.silent:
        return []
    return [
        f"{perturbed.name} equals {before.name} in all that is compared, so it shows no round-off: "
        "the tolerance is estimated. Record it again with another number of threads or on another device."
    ]


def _unread(*jobs: TensorRecording) -> list[str]:
    return [text for job in jobs if (text := unread_text(job.name, job.skipped))]


def _missing(pairs: Pairs) -> list[str]:
    """Explain what cannot be compared."""
    told: list[str] = []
    jobs = (pairs.before, pairs.after)
    names = [pairs.names(side) for side in (0, 1)]
    steps = [pairs.saved_steps(side) for side in (0, 1)]
    for side, job in enumerate(jobs):
        only = sorted(names[side] - names[1 - side], key=natural)
        if only and names[1 - side]:
            told.append(f"only {job.name} has {counted(len(only), 'tensor')}: {_some(only)}")
        apart = sorted(steps[side] - steps[1 - side])
        if apart and steps[1 - side]:
            told.append(f"only {job.name} saved tensors at {_steps(apart)}")
        ranks = sorted(job.ranks - jobs[1 - side].ranks)
        if ranks and jobs[1 - side].ranks:
            told.append(f"only {job.name} has {ranks_text(ranks)}")
    if lacking := [job.name for job, own in zip(jobs, names, strict=True) if not own]:
        told.append(f"{' and '.join(lacking)} saved no tensors: {_SAVE} saves them")
    if all(names) and not names[0] & names[1]:
        told.append("no tensor has the same name in both jobs")
    elif Stage.FORWARD not in pairs.stages() and all(names):
        told.append(
            "inputs and outputs of modules were not saved in both jobs: `--save layers@1:end=10` saves them, "
            "and the comparison names the module"
        )
    return told


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _steps(steps: Sequence[int]) -> str:
    if steps[-1] - steps[0] == len(steps) - 1:
        return steps_text(steps[0], steps[-1])
    return f"{counted(len(steps), 'step')} between {steps[0]} and {steps[-1]}"
