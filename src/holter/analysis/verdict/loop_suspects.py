"""Tests what runs in the loop beside the model and its data: own code, checkpoints and evaluation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from holter.analysis.steps.own_code import DEVICE
from holter.analysis.verdict.evidence import Evidence, capitalized, ms, pct, sentence
from holter.analysis.verdict.result import (
    BOTTLENECK,
    CHECKPOINT_SHARE,
    SECOND,
    SMALLER,
    UNEXPLAINED,
    SuspectResult,
)

if TYPE_CHECKING:
    from holter.analysis.steps.named_work import NamedWork
    from holter.analysis.steps.own_code import OwnCode
    from holter.analysis.verdict.job_facts import VerdictFacts

EVALUATION_SHARE = BOTTLENECK
ONE_STEP = 0.8
"""A function with at least this share of its time in one step stalls the training once."""
NAMED = 5.0
"""Own code is named from this percentage of the loop on."""
_MANY_STEPS = 20
_MOST_HOLDERS = 2


def sampled(facts: VerdictFacts, one: OwnCode) -> Evidence:
    """Return the share of a sampled function as evidence."""
    text = f"{one.text} takes {pct(one.pct)} of the loop's time"
    return facts.seen(text, "own_code", one.pct, None, one.place)


def calls(facts: VerdictFacts) -> list[NamedWork]:
    """Return callbacks, loggers and annotations that take much of the loop's own code, the largest first."""
    return [one for one in facts.named_work if one.part == "other" and one.pct >= NAMED]


def own_code(facts: VerdictFacts) -> SuspectResult:
    """The loop's own code, or another thread, takes 30 % of the time or more, and stack samples say where."""
    if facts.held_pct >= UNEXPLAINED:
        return _held(facts)
    if facts.collecting_pct >= UNEXPLAINED:
        callers = [one for one in facts.own_code if one.waits_in == "garbage collection"]
        where = f": {callers[0].text}" if callers else ""
        text = f"garbage collection takes {pct(facts.collecting_pct)} of the loop's time{where}"
        return _guilty(facts, text, "gc", facts.collecting_pct, UNEXPLAINED)
    mine = [
        one for one in facts.own_code if not one.iterates and not one.checkpoints and one.waits_in != DEVICE
    ]
    named = [one for one in mine if one.pct >= NAMED]
    left = facts.share("other") - sum(one.pct for one in facts.around_checkpoints)
    if facts.not_seen or left < (SMALLER if named else SECOND):
        if facts.held_pct < SMALLER:
            return SuspectResult()
        holder = facts.holders[0]
        text = f"{holder.text}, for which the training thread waits {pct(holder.pct)} of the loop's time"
        return facts.smaller(text, facts.held_pct)
    if left < UNEXPLAINED:
        places = f": {named[0].text} {pct(named[0].pct)}" if named else ""
        return facts.smaller(f"the loop's own code takes {pct(left)} {facts.of_time('other')}{places}", left)
    if not named:
        called = calls(facts)
        return _called(facts, left, called) if called else _profiled(facts, left)
    first, evidence = named[0], [sampled(facts, one) for one in named]
    if first.step_share >= ONE_STEP and facts.steady_steps >= _MANY_STEPS and first.pct >= UNEXPLAINED:
        took = ms(first.step_share * first.pct / 100 * facts.steady_steps * (facts.mean_step_ms or 0.0))
        said = (
            f"Step {first.step} spends {took}, {pct(first.pct)} of the loop's time, in {first.text}. "
            f"The typical step takes {ms(facts.step_ms or 0.0)}."
        )
    else:
        places = ", ".join(f"{one.text} {pct(one.pct)}" for one in named[:2])
        of = facts.of_time_with_stall("other")
        said = f"The loop's own code takes {pct(left)} {of}: {places}."
    return SuspectResult(guilty=True, sentence=said, share=left, evidence=evidence)


def _held(facts: VerdictFacts) -> SuspectResult:
    """Name the threads that hold the interpreter."""
    evidence = [
        facts.seen(
            f"{one.text}; the training thread waits for it {pct(one.pct)} of the loop's time",
            "interpreter",
            one.pct,
            UNEXPLAINED,
            one.place,
        )
        for one in facts.holders[:_MOST_HOLDERS]
    ]
    also = "".join(f", and {one.text}" for one in facts.holders[1:_MOST_HOLDERS] if one.pct >= NAMED)
    said = (
        f"{capitalized(facts.holders[0].text)}{also}. The training thread waits for "
        f"{'them' if also else 'it'} {pct(facts.held_pct)} of the loop's time."
    )
    return SuspectResult(guilty=True, sentence=said, share=facts.held_pct, evidence=evidence)


def _called(facts: VerdictFacts, left: float, called: list[NamedWork]) -> SuspectResult:
    """Name callbacks, loggers and annotations, where samples name no function."""
    places = ", ".join(f"{one.name} {pct(one.pct)}" for one in called[:2])
    said = f"The loop's own code takes {pct(left)} {facts.of_time_with_stall('other')}: {places}."
    evidence = [
        facts.seen(
            f"{one.name} takes {pct(one.pct)} of the loop's time", "named_work", one.pct, None, one.name
        )
        for one in called
    ]
    return SuspectResult(guilty=True, sentence=said, share=left, evidence=evidence)


def _profiled(facts: VerdictFacts, left: float) -> SuspectResult:
    """Name the functions of a recorded profile, where samples name none."""
    python = facts.python
    if python is None or not python.typical or not python.functions:
        return SuspectResult()
    names = ", ".join(f"{name} {pct(share)}" for name, share in python.functions[:2])
    of = facts.of_time_with_stall("other")
    said = f"The loop's own code takes {pct(left)} {of}: in {python.steps}, {names}."
    evidence = [
        facts.seen(f"{name} takes {pct(share)} of that time in {python.steps}", "python", share, None, name)
        for name, share in python.functions
    ]
    return SuspectResult(guilty=True, sentence=said, share=left, evidence=evidence)


def checkpointing(facts: VerdictFacts) -> SuspectResult:
    """Checkpoints take 10 % of the loop or more, with what else runs in the function that writes them."""
    around = facts.around_checkpoints
    written = facts.breakdown.get("checkpoint", 0.0)
    share = written + sum(one.pct for one in around)
    if share < CHECKPOINT_SHARE:
        return SuspectResult(because=f"checkpoints take {pct(share)} of the loop's time")
    text = f"writing checkpoints takes {pct(share)} of the loop's time"
    if around:
        places = ", ".join(f"{pct(one.pct)} {one.text}" for one in around[:2])
        text = f"checkpointing takes {pct(share)} of the loop's time: {pct(written)} writing, {places}"
    return _guilty(facts, text, "checkpoint", share, CHECKPOINT_SHARE)


def evaluation(facts: VerdictFacts) -> SuspectResult:
    """Evaluations take 30 % of the loop or more."""
    share = facts.share("eval")
    text = f"evaluation takes {pct(share)} of the loop's time"
    if share < SMALLER:
        return SuspectResult(because=text if share else "")
    if share < EVALUATION_SHARE:
        return facts.smaller(text, share)
    found = _guilty(facts, text, "eval", share, EVALUATION_SHARE)
    if starts := evaluation_starts(facts):
        more = f"starting the workers of the evaluation's loader takes {pct(starts)} of the loop's time"
        found.evidence.append(facts.seen(more, "evaluation_start", starts))
        said = f"{text}; starting the workers of its loader takes {pct(starts)}"
        found = replace(found, sentence=sentence(said))
    return found


def evaluation_starts(facts: VerdictFacts) -> float:
    """Return the percentage of the loop in which evaluations start workers, if that is worth naming."""
    starts = facts.loading.evaluation_start_pct if facts.loading else 0.0
    return starts if starts >= SMALLER and 3 * starts >= facts.share("eval") else 0.0


def _guilty(facts: VerdictFacts, text: str, metric: str, share: float, limit: float) -> SuspectResult:
    evidence = [facts.seen(text, metric, share, limit)]
    return SuspectResult(guilty=True, sentence=sentence(text), share=share, evidence=evidence)
