"""Tests the suspects outside the model and its data: own code, checkpoints, evaluation and contention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.verdict.evidence import Evidence, counted, ms, pct, sentence
from holter.analysis.verdict.result import BOTTLENECK, SECOND, SMALLER, UNEXPLAINED, SuspectResult

if TYPE_CHECKING:
    from holter.analysis.machine.load import Load
    from holter.analysis.steps.own_code import OwnCode
    from holter.analysis.verdict.job_facts import VerdictFacts

CHECKPOINT_SHARE = 10.0
EVALUATION_SHARE = BOTTLENECK
WAITS_FOR_CORE = 25.0
STOPPED = 10.0
QUOTA = 10.0
"""A CPU quota is named if it runs out in this percentage of the scheduling periods."""
OTHER_PROGRAM = 10.0
"""Other programs are named from this percentage of a core on."""
ONE_STEP = 0.8
"""A function with at least this share of its time in one step stalls the training once."""
NAMED = 5.0
"""Own code is named from this percentage of the loop on."""
_MANY_STEPS = 20


def sampled(facts: VerdictFacts, one: OwnCode) -> Evidence:
    """Return the share of a sampled function as evidence."""
    text = f"{one.text} takes {pct(one.pct)} of the loop's time"
    return facts.seen(text, "own_code", one.pct, None, one.place)


def own_code(facts: VerdictFacts) -> SuspectResult:
    """The loop's own code takes 30 % of the time or more, and stack samples say where."""
    if facts.collecting_pct >= UNEXPLAINED:
        callers = [one for one in facts.own_code if one.waits_in == "garbage collection"]
        where = f": {callers[0].text}" if callers else ""
        text = f"garbage collection takes {pct(facts.collecting_pct)} of the loop's time{where}"
        return _guilty(facts, text, "gc", facts.collecting_pct, UNEXPLAINED)
    mine = [one for one in facts.own_code if not one.iterates and not one.checkpoints]
    named = [one for one in mine if one.pct >= NAMED]
    left = facts.share("other") - sum(one.pct for one in facts.around_checkpoints)
    if facts.not_seen or left < (SMALLER if named else SECOND):
        return SuspectResult()
    if left < UNEXPLAINED:
        places = f": {named[0].text} {pct(named[0].pct)}" if named else ""
        return facts.smaller(f"the loop's own code takes {pct(left)} {facts.of_time('other')}{places}", left)
    if not named:
        return _profiled(facts, left)
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
    return _guilty(facts, text, "eval", share, EVALUATION_SHARE)


def contention(facts: VerdictFacts) -> SuspectResult:
    """The training is ready to run without a core for a quarter of the time or more, or it is stopped."""
    halted = next((one for one in facts.loads if (one.stopped_pct or 0.0) >= STOPPED), None)
    if halted is not None and halted.stopped_pct is not None:
        text = f"the training is stopped {pct(halted.stopped_pct)} of the time, as SIGSTOP and debuggers do"
        seen = facts.seen(text, "thread.stopped", halted.stopped_pct, STOPPED, halted.node)
        if worst := max(facts.stalls.values(), default=None):
            text += f" (step {worst.step} took {ms(worst.duration_ms)})"
        return SuspectResult(guilty=True, sentence=sentence(text), share=halted.stopped_pct, evidence=[seen])
    load = next((one for one in facts.loads if (one.trainer_delay or 0.0) >= WAITS_FOR_CORE), None)
    if load is None or load.trainer_delay is None:
        known = [one.trainer_delay for one in facts.loads if one.trainer_delay is not None]
        waits = f"the training waits for a core {pct(max(known, default=0.0))} of the time"
        if max(known, default=0.0) >= SMALLER:
            return facts.smaller(waits, max(known))
        return SuspectResult(because=waits if known else "")
    text = f"the training waits for a core {pct(load.trainer_delay)} of the time"
    evidence = [facts.seen(text, "proc.cpu.delay", load.trainer_delay, WAITS_FOR_CORE, load.node)]
    others = [(name, used) for name, used in load.others.items() if used >= OTHER_PROGRAM][:3]
    for name, used in others:
        also = f"{name} outside of the job uses {used / 100:.1f} cores"
        evidence.append(facts.seen(also, "other.cpu", used, None, name))
    quota = load.quota_ran_out_pct or 0.0
    if quota >= QUOTA:
        also = f"the CPU quota runs out in {pct(quota)} of the scheduling periods"
        evidence.append(facts.seen(also, "cgroup.throttled_pct", quota, QUOTA, load.node))
    limit = counted(load.cores, "core") if load.cores else "the cores"
    if load.crowded and load.wanted_cores is not None:
        also = f"the job's own threads want {load.wanted_cores:.1f} of {limit}{_wanted(load)}"
        evidence.append(facts.seen(also, "proc.runnable", load.wanted_cores, load.cores, load.node))
        text += f": {also}"
    elif others:
        used = sum(share for _, share in others) / 100
        text += f": other programs use {used:.1f} of {limit} ({', '.join(name for name, _ in others)})"
    elif quota < QUOTA:
        text += "; no other program was seen on the cores"
    if quota >= QUOTA:
        text += f", and its quota runs out in {pct(quota)} of the scheduling periods"
    return SuspectResult(guilty=True, sentence=sentence(text), share=load.trainer_delay, evidence=evidence)


def _wanted(load: Load) -> str:
    """Return who wants the cores: the threads of the training processes, and the workers."""
    if not load.workers or load.worker_runnable is None:
        return ""
    training, workers = load.trainer_runnable or 0.0, counted(round(load.workers), "worker")
    return f" ({training:.1f} for training, {load.worker_runnable:.1f} for {workers})"


def _guilty(facts: VerdictFacts, text: str, metric: str, share: float, limit: float) -> SuspectResult:
    evidence = [facts.seen(text, metric, share, limit)]
    return SuspectResult(guilty=True, sentence=sentence(text), share=share, evidence=evidence)
