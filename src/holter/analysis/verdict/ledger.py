"""The ledger of a job's wall time: how much of it start-up, steps, slow steps and the other items take."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.steps.breakdown import breakdown
from holter.analysis.steps.outliers import HOLTER
from holter.analysis.steps.warmup import steady
from holter.analysis.verdict.evidence import Evidence, counted, enumerated, ms, part_name, pct, sentence, took
from holter.analysis.verdict.loop_advice import FEWER_EVALUATIONS
from holter.analysis.verdict.result import SECOND, SMALLER, UNEXPLAINED, Advice, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from holter.analysis.steps.named_work import NamedWork
    from holter.analysis.steps.outliers import Outlier
    from holter.analysis.steps.own_code import OwnCode
    from holter.schema.table import Table

NAMES = {
    "startup": "start-up",
    "compile": "compilation",
    "warmup": "warm-up",
    "steps": "steps",
    "stalls": "slow steps",
    "eval": "evaluation",
    "checkpoint": "checkpoints",
    "gaps": "gaps between steps",
    "finalization": "finalization",
}
"""The items in order of time, and their names for people."""
LONG_S = 60.0
"""The start-up is a suspect in jobs that take at least this long."""
SUSPECTS = {"compile": "compilation", "eval": "evaluation", "startup": "startup"}
"""Items that can outweigh the steps, and what the verdict calls them."""
_WORTH_NAMING = 0.2
"""A step that writes a checkpoint is slow for another reason if so much of its extra time is unexplained."""
_OUTSIDE = {name: NAMES[name] for name in ("startup", "compile", "warmup", "finalization")}
"""Items that no suspect of the steps is about."""
_OWN_ITEMS = ("eval", "checkpoint")
"""Parts of steps that the ledger lists on their own."""
_ADVICE = {
    "compile": "Keep the compiler's cache between jobs ({cache}), or train longer per start.",
    "eval": FEWER_EVALUATIONS,
    "startup": "Find slow imports with `python -X importtime`, and time the script's work before its loop.",
}
BEFORE_RAY = "before the first worker of Ray Train runs"
"""What of the start-up Ray takes, with the script's imports."""
_RAY = (
    "Connect to a Ray cluster that runs already (`ray start --head`), or train longer per start: before a "
    "worker runs, Ray starts its cluster, the controller of Ray Train and the processes of its workers."
)
_AGAIN = 4
"""A job compiles again and again from this number of steps on: a few compile for training and evaluation."""
_DYNAMIC = (
    "Compile fewer times: pad inputs to a few sizes, or mark the sizes that change as dynamic "
    "(torch._dynamo.mark_dynamic). `TORCH_LOGS=recompiles` says what changed."
)
_DYNAMICS: dict[str | None, str] = {
    "jax": "Compile fewer times: pad batches to a few sizes, and pass numbers that change as arrays."
}
"""Framework → advice for steps that compile again and again."""
_CACHE = "TORCHINDUCTOR_CACHE_DIR"
_CACHES: dict[str | None, str] = {"jax": "JAX_COMPILATION_CACHE_DIR"}
"""Framework → the variable that names the folder of its compiler's cache."""


@dataclass(frozen=True, slots=True)
class LedgerItem:
    """One use of the job's wall time."""

    item: str
    """A key of `NAMES`; within steps a part of `BREAKDOWN`."""
    seconds: float
    """Mean over the ranks."""
    pct: float
    """Percent of the job's wall time."""
    text: str
    """The item for people; of slow steps also the longest one."""
    children: list[LedgerItem] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the item with the keys of `describe --json`."""
        return asdict(self)


def ledger(
    phases: Mapping[str, float | int | None],
    steps: Table,
    worst: Sequence[Outlier],
    *,
    split: Mapping[str, float] | None = None,
    around: Sequence[OwnCode] = (),
    named: Sequence[NamedWork] = (),
    before: Mapping[str, float] | None = None,
) -> list[LedgerItem]:
    """Return the ledger of a job; its shares add up to 100.

    Args:
        phases: Result of `job_phases`; without an end there is no ledger.
        steps: Table `steps`, warm-up included.
        worst: Outliers of the steady steps.
        split: The breakdown of the steady steps if samples corrected it; by default that of `steps`.
        around: The loop's own code that runs with checkpoints only: its time belongs to them.
        named: Callbacks, loggers and annotations within the parts of the steps.
        before: The same before the first step: name → seconds.

    Returns:
        Items in order of time; those without time are left out. Empty without steps.
    """
    loop, ranks = phases.get("training_loop_s"), len(np.unique(steps["rank"]))
    if not steps.rows or loop is None or phases.get("finalization_s") is None:
        return []
    per_rank = {name: float(steps[name].sum()) / 1e9 / ranks for name in ("compile", *_OWN_ITEMS)}
    per_rank["eval"] = float(_evaluated(steps).sum()) / 1e9 / ranks
    used = float(steps["duration"].sum()) / 1e9 / ranks
    mask = steady(steps)
    # What the ledger lists on its own belongs to no other item.
    own = steps["duration"] - sum(steps[part] for part in _OWN_ITEMS)
    typical = float(np.median(own[mask])) if mask.any() else 0.0
    first = ~mask & (steps["compile"] == 0)
    slow = np.maximum(own[first] - typical, 0).sum() / 1e9 / ranks
    steady_s = float(steps["duration"][mask].sum()) / 1e9 / ranks
    waits = [LedgerItem("around", one.pct / 100 * steady_s, 0.0, _around(one)) for one in around]
    slow_steps, stalled = _stalls(steps, worst, sum(one.seconds for one in waits) * ranks)
    stalled /= ranks
    longest = max(slow_steps, key=lambda one: one.duration_ms, default=None)
    lengths = {
        "compile": per_rank["compile"],
        "warmup": float(slow),
        "stalls": stalled,
        "eval": per_rank["eval"],
        "checkpoint": per_rank["checkpoint"] + sum(one.seconds for one in waits),
        "gaps": max(float(loop) - used, 0.0),
    }
    rest = float(loop)
    for name, length in lengths.items():
        lengths[name] = min(length, rest)
        rest -= lengths[name]
    by_holter = bool(slow_steps) and all(one.cause == HOLTER for one in slow_steps)
    own = ", all while holter finished a profile" if by_holter else ""
    texts = {
        "stalls": f"{counted(len({one.step for one in slow_steps}), 'slow step')}{own}"
        + (f"; step {longest.step} took {ms(longest.duration_ms)}" if longest else ""),
    }
    lengths = {
        "startup": float(phases.get("initialization_s") or 0.0),
        **lengths,
        "steps": rest,
        "finalization": float(phases.get("finalization_s") or 0.0),
    }
    lengths["eval"] += float(phases.get("evaluation_s") or 0.0)
    total = sum(lengths.values())
    if total <= 0:
        return []
    if split is None:
        split = breakdown(steps, mask) if mask.any() else {}
    # The extra time of slow steps, and what runs with checkpoints, is no part of the usual steps.
    grown = {part: taken / 1e3 / ranks for part, taken in _grown(worst, split).items()}
    grown["other"] = max(grown.get("other", 0.0), sum(one.seconds for one in waits))
    left = {part: share / 100 * steady_s - grown[part] for part, share in split.items()}
    inside = {part: taken for part, taken in left.items() if part not in _OWN_ITEMS and taken > 0}
    writing = LedgerItem("writing", per_rank["checkpoint"], 0.0, "writing")
    children = {
        "startup": _before(before or {}, lengths["startup"], total),
        "steps": _parts(inside, lengths["steps"], total, split, named),
        "checkpoint": _shared([writing, *waits], lengths["checkpoint"], total) if waits else [],
    }
    return [
        LedgerItem(
            item=name,
            seconds=lengths[name],
            pct=100.0 * lengths[name] / total,
            text=texts.get(name, NAMES[name]),
            children=children.get(name, []),
        )
        for name in NAMES
        if lengths[name] > 0
    ]


def _grown(worst: Sequence[Outlier], parts: Iterable[str]) -> dict[str, float]:
    """Return the time that slow steps take longer in each part, ms; there may be 100,000 of them."""
    found = dict.fromkeys(parts, 0.0)
    for one in worst:
        for part, taken in one.extra.items():
            if part in found:
                found[part] += taken
    return found


def _evaluated(steps: Table) -> NDArray[np.int64]:
    """Return the evaluation of each step, ns, without the compilation that it must have waited for."""
    left = np.maximum(steps["duration"] - steps["compile"], 0)
    return np.where(steps["compile"] > 0, np.minimum(steps["eval"], left), steps["eval"])


def _stalls(steps: Table, worst: Sequence[Outlier], around_s: float) -> tuple[list[Outlier], float]:
    """Return the slow steps and their extra seconds, without the time that runs with checkpoints.

    Args:
        steps: Table `steps`.
        worst: Outliers of the steady steps.
        around_s: Seconds of code that runs with checkpoints only, of all ranks.
    """
    writes = steps["checkpoint"] > 0
    saving = set(zip(steps["rank"][writes].tolist(), steps["step"][writes].tolist(), strict=True))
    taken = {
        at: max(one.extra_ms - sum(one.extra.get(part, 0.0) for part in _OWN_ITEMS), 0.0) / 1e3
        for at, one in enumerate(worst)
    }
    with_checkpoint = [at for at, one in enumerate(worst) if (one.rank, one.step) in saving]
    together = sum(taken[at] for at in with_checkpoint)
    left = max(1.0 - around_s / together, 0.0) if together else 1.0
    for at in with_checkpoint:
        taken[at] *= left
    # Shares from samples are estimates: a small rest makes no step slow.
    slow = [one for at, one in enumerate(worst) if at not in with_checkpoint or left >= _WORTH_NAMING]
    return slow, sum(taken.values())


def _around(one: OwnCode) -> str:
    return f"waiting in {one.place}" if one.waits_in else one.place


def _parts(
    left: Mapping[str, float],
    seconds: float,
    total: float,
    split: Mapping[str, float],
    named: Sequence[NamedWork],
) -> list[LedgerItem]:
    """Return the parts of the steps with their named work, whose share of a part is that in `split`."""
    parts = [LedgerItem(part, taken, 0.0, part_name(part)) for part, taken in left.items()]
    return [replace(one, children=_named(one, split, named)) for one in _shared(parts, seconds, total)]


def _named(part: LedgerItem, split: Mapping[str, float], named: Sequence[NamedWork]) -> list[LedgerItem]:
    shares = [(one.name, min(one.pct / split[part.item], 1.0)) for one in named if one.part == part.item]
    return [LedgerItem("named", part.seconds * share, part.pct * share, name) for name, share in shares]


def _before(before: Mapping[str, float], seconds: float, total: float) -> list[LedgerItem]:
    """Return the named work of the start-up from a hundredth of it on, the longest first."""
    items = [
        LedgerItem("named", min(taken, seconds), 100.0 * min(taken, seconds) / total, name)
        for name, taken in before.items()
        if seconds and taken >= seconds / 100
    ]
    return sorted(items, key=lambda one: -one.seconds)


def _shared(items: Sequence[LedgerItem], seconds: float, total: float) -> list[LedgerItem]:
    """Return items, the longest first, scaled so that they take `seconds` of `total` together."""
    whole = sum(one.seconds for one in items)
    scaled = [replace(one, seconds=seconds * one.seconds / whole) for one in items if one.seconds > 0]
    return [
        replace(one, pct=100.0 * one.seconds / total) for one in sorted(scaled, key=lambda one: -one.seconds)
    ]


def compiling_steps(steps: Table) -> int:
    """Return the number of steps with a compilation, of the rank that has most."""
    counts = np.unique(steps["rank"][steps["compile"] > 0], return_counts=True)[1]
    return int(counts.max(initial=0))


def with_ledger(
    verdict: Verdict,
    items: Sequence[LedgerItem],
    after_s: float = 0.0,
    framework: str | None = None,
    compiling: int = 0,
) -> Verdict:
    """Return the verdict with what it leaves out of the job's time.

    Compilation, evaluation or start-up lead it where these outweigh the steps. Whatever else of the job it is
    not about is named from 15 % on. It says how much of the job the loop is, if that is less than half.

    Args:
        verdict: The verdict on the steps.
        items: The ledger; without one the verdict stays.
        after_s: Evaluation after the last step, which is no part of the loop.
        framework: The framework that trains; the advice uses its terms.
        compiling: Number of steps with a compilation, as `compiling_steps` returns it.
    """
    led = _led(verdict, items, framework, compiling)
    covered = _covered(items, after_s, led)
    if not covered:
        return led
    text, small = covered
    return replace(led, sentence=f"{text} {led.sentence}" if small else f"{led.sentence} {text}")


def _covered(items: Sequence[LedgerItem], after_s: float, led: Verdict) -> tuple[str, bool] | None:
    """Return what the loop is of the job and what else takes its time, and whether the loop is small."""
    total = sum(one.seconds for one in items)
    outside = {one.item: one.seconds for one in items if one.item in _OUTSIDE} | {"eval": after_s}
    named = {item for item, suspect in SUSPECTS.items() if suspect in (led.suspect, *led.also)}
    large = [item for item in outside if 100 * outside[item] >= SECOND * total and item not in named]
    # A short warm-up counts as training, as in the phases of the job.
    warming = 0.0 if "warmup" in large else outside.get("warmup", 0.0)
    loop = total - sum(outside.values()) + warming
    if not items or (not large and 2 * loop >= total):
        return None
    share = 100 * loop / total
    text = f"The training loop is {pct(share)} of this job ({took(loop)} of {took(total)})"
    texts = [f"{_OUTSIDE.get(one, 'evaluation after it')} takes {took(outside[one])}" for one in large]
    text += f": {enumerated(texts)}." if texts else "."
    return text, share < SMALLER


def _led(verdict: Verdict, items: Sequence[LedgerItem], framework: str | None, compiling: int) -> Verdict:
    """Return the verdict, led by compilation, evaluation or start-up where these outweigh the steps."""
    total = sum(one.seconds for one in items)
    found = [
        one
        for one in items
        if one.item in SUSPECTS and one.pct >= UNEXPLAINED and (one.item != "startup" or total >= LONG_S)
    ]
    if not found:
        return verdict
    first = max(found, key=lambda one: one.pct)
    suspect = SUSPECTS[first.item]
    if suspect in (verdict.suspect, *verdict.also):
        return verdict
    accused = verdict.suspect not in ("healthy", "inconclusive")
    if accused and first.pct < (verdict.share_pct or 0.0) * _loop_share(items) / 100:
        return replace(verdict, also=[*verdict.also, suspect])
    steps = [one for one in (verdict.suspect, *verdict.also) if one != "mixed"]
    text = f"{NAMES[first.item]} takes {took(first.seconds)} of {took(total)}"
    advised = _ADVICE[first.item].format(cache=_CACHES.get(framework, _CACHE))
    if first.item == "compile" and compiling >= _AGAIN:
        text += f" in {compiling} steps"
        advised = _DYNAMICS.get(framework, _DYNAMIC)
    before_ray = sum(one.seconds for one in first.children if one.text == BEFORE_RAY)
    if 2 * before_ray > first.seconds:
        text += f", {took(before_ray)} of it {BEFORE_RAY}"
        advised = _RAY
    evidence = Evidence(f"{text}, {pct(first.pct)} of the job", first.item, first.pct, UNEXPLAINED)
    return replace(
        verdict,
        suspect="mixed" if accused else suspect,
        also=[suspect, *steps] if accused else verdict.also,
        sentence=f"{sentence(text)} {verdict.sentence}",
        share_pct=first.pct,
        evidence=[evidence, *verdict.evidence],
        advice=[Advice(advised, None, evidence.text), *verdict.advice],
    )


def _loop_share(items: Sequence[LedgerItem]) -> float:
    return sum(one.pct for one in items if one.item in ("steps", "stalls", "warmup"))
