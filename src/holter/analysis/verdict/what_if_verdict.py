"""The verdict on a timeline of workers, from the replay of its dependencies without single causes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.verdict.evidence import Evidence, capitalized, ms, pct
from holter.analysis.verdict.result import Advice, Verdict

if TYPE_CHECKING:
    from holter.analysis.jobs.what_if import Cause, WhatIf

WORTH = 1.05
"""A cause is the verdict if the job runs at least so many times as fast without it."""
WORTH_COMMUNICATION = 1.15
"""Each job communicates, and no job can do without."""
ALONE = 0.8
"""One slow worker is named alone if it explains at least this share of what all slow workers cost."""

_WITHOUT = {
    "worker": "Without its extra work",
    "workers": "Without their extra work",
    "stage": "With equal stages",
    "micro_batches": "With equal micro-batches",
    "communication": "Without it",
}


def faster(found: WhatIf, cause: Cause) -> str:
    """Say what the removal of a cause gains: `the job would run 1.97 times as fast (…)`."""
    return (
        f"the job would run {cause.speedup:.3g} times as fast ({ms(cause.step_ms)} instead of "
        f"{ms(found.step_ms)} per step)"
    )


def of_replay(found: WhatIf) -> Verdict | None:
    """Judge a timeline by the cause whose removal gains most; None if none gains enough."""
    cause = _worst(found)
    if cause is None:
        return None
    evidence = [
        Evidence(
            f"if equal operations took equally long on all {found.workers} workers, a step would take "
            f"{ms(found.ideal_ms)} instead of {ms(found.step_ms)}: a slowdown of {found.slowdown:.3g}",
            "what_if.slowdown",
            found.slowdown,
            1.0,
        )
    ]
    for what, shares in (("operation", found.by_operation), ("stage", found.by_stage)):
        most = sorted(shares.items(), key=lambda one: -one[1])[:2]
        named = " and ".join(f"{name} {share:.3g}" for name, share in most if share >= 1.01)
        if named:
            text = f"slowdown that remains if only one {what} keeps its durations: {named}"
            evidence.append(Evidence(text, f"what_if.{what}", most[0][1], 1.0, most[0][0]))
    gain = 100 * (1 - cause.step_ms / found.step_ms)
    return Verdict(
        suspect="communication",
        sentence=f"{_said(cause, gain)} {_WITHOUT[cause.kind]} {faster(found, cause)}.",
        share_pct=gain,
        evidence=evidence,
        advice=[Advice(_advice(cause), cause.step_ms, f"{pct(gain)} of each step is due to it")],
        missing=["kernels"],
    )


def _worst(found: WhatIf) -> Cause | None:
    """Return the most costly cause; one slow worker in place of several if it explains most of their cost."""
    costly = [
        cause
        for cause in found.causes
        if cause.speedup >= (WORTH_COMMUNICATION if cause.kind == "communication" else WORTH)
    ]
    if costly and costly[0].kind == "workers":
        alone = next((cause for cause in costly if cause.kind == "worker"), None)
        if alone and found.step_ms - alone.step_ms >= ALONE * (found.step_ms - costly[0].step_ms):
            return alone
    return costly[0] if costly else None


def _said(cause: Cause, gain: float) -> str:
    name = capitalized(cause.name)
    if cause.kind == "worker":
        return f"{name} computes {cause.ratio:.3g} times as long as its peers, and all others wait for it."
    if cause.kind == "workers":
        return f"{name} compute up to {cause.ratio:.3g} times as long as their peers, and all others wait."
    if cause.kind == "stage":
        return f"{name} of the pipeline computes {cause.ratio:.3g} times as long as the other stages."
    if cause.kind == "micro_batches":
        return "The work of one worker takes unequally long from micro-batch to micro-batch, so others wait."
    return f"Communication that computation does not hide takes {pct(gain)} of each step."


def _advice(cause: Cause) -> str:
    if cause.kind in ("worker", "workers"):
        return f"Check whether {cause.name} {'has' if cause.kind == 'worker' else 'have'} more work or a " + (
            "slower machine."
        )
    if cause.kind == "stage":
        return f"Move layers from {cause.name} to the other stages."
    if cause.kind == "micro_batches":
        return "Form micro-batches of equal work, for example by the number of their tokens."
    return "Overlap communication with computation, or communicate less."
