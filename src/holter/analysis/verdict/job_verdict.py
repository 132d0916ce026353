"""The verdict on a recorded job: why it is slow, with evidence, the suspects ruled out, and advice."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from holter.analysis.loading.dataloading import COMPUTE
from holter.analysis.verdict import (
    device_advice,
    device_suspects,
    job_advice,
    ledger,
    loop_advice,
    machine_advice,
    operator_suspects,
)
from holter.analysis.verdict.device_facts import LEAST_KERNELS
from holter.analysis.verdict.evidence import counted, ms, pct, sentence
from holter.analysis.verdict.job_suspects import DATA_INNOCENT, DATA_SHARE, TESTS
from holter.analysis.verdict.machine_suspects import STOPPED
from holter.analysis.verdict.result import (
    BOTTLENECK,
    GPU_BUSY,
    SECOND,
    UNEXPLAINED,
    Advice,
    Verdict,
    most_guilty,
    ordered,
    ruled_out,
    smaller_shares,
    summed_share,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.analysis.verdict.job_facts import VerdictFacts
    from holter.analysis.verdict.result import SmallerShare, SuspectResult

SUSPECTS = tuple(dict.fromkeys((*TESTS, *ledger.SUSPECTS.values(), "mixed", "healthy", "inconclusive")))
"""All verdicts."""

NO_STEP = "No training step was recorded, so holter cannot divide the time into steps."
MIN_STEPS = 5
"""A verdict needs at least this many steady steps, or long ones."""
LONG_STEPS_MS = 10_000.0
"""Fewer steps are enough if they take this long in all."""

_BY_KERNELS = ("communication", "framework_overhead", "memory_pressure")
"""Suspects that kernels show better than the host's time."""
_WORTH_SPLITTING = 15.0
_MOST_SMALLER = 2
MOST_OF_THE_TIME = 50.0
"""A wait for a core comes before every other suspect only if it takes a larger percentage of the time."""
_STAYS = ("own_code", "contention")
"""Suspects that a thread that holds the interpreter does not explain."""


def verdict(facts: VerdictFacts) -> Verdict:
    """Judge a job.

    Each suspect is tested independently. One guilty suspect is the verdict; several are `mixed`. Without a
    guilty suspect the job is `healthy` if its time is accounted for: compute fills the step of a CPU job, or
    the GPUs are busy. Otherwise it is `inconclusive`, and `missing` names the data that would decide.

    `healthy` differs from `model_compute`: compute may fill the step of a healthy job. The model is the
    suspect only if the GPUs are saturated (median of 95 % or more), so that only less work makes the step
    shorter.
    """
    found = _verdict(facts)
    if facts.profiled is None:
        return found
    more = [*operator_suspects.evidence(facts), *facts.profiled.evidence()]
    known = {item.metric for item in found.evidence}
    return replace(found, evidence=[*found.evidence, *(item for item in more if item.metric not in known)])


def _verdict(facts: VerdictFacts) -> Verdict:
    lacking = missing_data(facts)
    if facts.steady_steps < MIN_STEPS and facts.steady_steps * (facts.mean_step_ms or 0.0) < LONG_STEPS_MS:
        return _too_short(facts, lacking)
    tested = {name: test(facts) for name, test in TESTS.items()}
    by_kernels = _tested_by_kernels(facts, [name for name, found in tested.items() if not found.guilty])
    by_operators = operator_suspects.tested(facts)
    tested |= by_kernels | by_operators
    guilty, also = _causes(tested, by_operators, facts)
    excluded, smaller = ruled_out(tested), smaller_shares(tested)
    if not guilty:
        return replace(_innocent(facts, excluded, lacking, smaller), smaller=smaller)
    # Contention makes every other part longer: beside another suspect it is evidence only, unless it comes
    # first.
    shared = guilty.pop("contention", None) if len(guilty) > 1 else None
    told = names = most_guilty(guilty)
    if shared and _comes_first(shared, guilty):
        names, also, told = ["contention"], names, ["contention", *names]
        guilty, shared = {"contention": shared}, None
    second = [one for one in smaller if one.share_pct >= SECOND]
    return Verdict(
        suspect=names[0] if len(names) == 1 else "mixed",
        sentence=" ".join([*(tested[name].sentence for name in told), *_said(second)]),
        share_pct=summed_share(guilty.values()),
        also=[*(also if len(names) == 1 else names), *(["contention"] if shared else [])],
        evidence=[
            *(item for name in told for item in tested[name].evidence),
            *(shared.evidence if shared else []),
        ],
        smaller=smaller,
        ruled_out=excluded,
        advice=[
            *ordered([one for name in told for one in _advice(name, facts, by_kernels, by_operators)]),
            *(machine_advice.contention(facts) if shared and any(one.crowded for one in facts.loads) else []),
        ],
        missing=lacking,
    )


def _causes(
    tested: Mapping[str, SuspectResult], by_operators: Mapping[str, SuspectResult], facts: VerdictFacts
) -> tuple[dict[str, SuspectResult], list[str]]:
    """Return the guilty suspects that no other one explains, and what explains a slow rank."""
    if any((one.stopped_pct or 0.0) >= STOPPED for one in facts.loads):
        # Whatever the training did when it was stopped looks slow.
        return {"contention": tested["contention"]}, []
    guilty = {name: one for name, one in tested.items() if one.guilty}
    also = []
    if "communication" in guilty and facts.stragglers and facts.stragglers[0].part == "data_loading":
        # All other ranks wait for the slow rank's data loading: this is one problem, not two.
        guilty.pop("data_pipeline", None)
        also = ["data_pipeline"]
    if facts.held_pct >= UNEXPLAINED:
        # A thread that holds the interpreter makes every other part longer.
        left = 1 - facts.held_pct / 100
        guilty = {
            name: one
            for name, one in guilty.items()
            if name in _STAYS or (one.share or 100.0) * left >= BOTTLENECK
        }
    elif operator_suspects.belongs_to_own_code(guilty, by_operators, facts):
        guilty.pop("model_compute")
    elif operator_suspects.explains_own_code(guilty, by_operators, facts):
        guilty.pop("own_code")
    return guilty, also


def _comes_first(contention: SuspectResult, others: Mapping[str, SuspectResult]) -> bool:
    """Return whether the wait for a core takes most of the time, and more than any other suspect."""
    shares = [one.share or 0.0 for one in others.values()]
    return (contention.share or 0.0) > max(MOST_OF_THE_TIME, *shares)


def _said(smaller: list[SmallerShare]) -> list[str]:
    """Name the largest smaller shares in a sentence."""
    if not smaller:
        return []
    texts = "; ".join(one.text for one in smaller[:_MOST_SMALLER])
    return [f"{'A smaller share' if len(smaller) == 1 else 'Smaller shares'}: {texts}."]


def missing_data(facts: VerdictFacts) -> list[str]:
    """Name the kinds of data that the suspects' tests use and that this job lacks."""
    load, loading = facts.load, facts.loading
    lacking = []
    if load is None or load.cpu_p50 is None:
        lacking.append("CPU samples")
    if facts.device == "cuda" and (load is None or load.gpu_p50 is None):
        lacking.append("GPU samples")
    if load is not None and load.gpu_p50 is not None and facts.kernels is None and load.gpu_p50 < GPU_BUSY:
        lacking.append("kernel trace")
    if loading is not None and loading.share_pct >= _WORTH_SPLITTING:
        if not loading.stages and facts.pipeline is None:
            lacking.append("activity of the data-loader workers")
        elif loading.stages.get("fetch", 0.0) >= _WORTH_SPLITTING:
            lacking.append("stack samples of the dataset")
    lacking += [f"{part} (its time counts as other)" for part in facts.not_seen]
    return [*lacking, *facts.not_counted]


def _tested_by_kernels(facts: VerdictFacts, innocent: list[str]) -> dict[str, SuspectResult]:
    """Test suspects again with the kernels of the profiled steps; return those that this makes guilty."""
    profiled = facts.profiled
    if profiled is None or profiled.device is None or profiled.device.kernels < LEAST_KERNELS:
        return {}
    found = {}
    for name in innocent:
        if name == "framework_overhead" and facts.share("data_loading") >= DATA_INNOCENT:
            continue  # the accelerator waits for batches
        if name in _BY_KERNELS and (result := device_suspects.TESTS[name](profiled.device)).guilty:
            evidence = [replace(item, window=profiled.window) for item in result.evidence]
            found[name] = replace(result, evidence=evidence)
    return found


def _advice(
    name: str,
    facts: VerdictFacts,
    by_kernels: dict[str, SuspectResult],
    by_operators: dict[str, SuspectResult],
) -> list[Advice]:
    if name in by_operators:
        return operator_suspects.advice(name, facts)
    if name in by_kernels and facts.profiled is not None and facts.profiled.device is not None:
        return device_advice.ADVICE[name](facts.profiled.device)
    advice = job_advice.ADVICE[name](facts)
    if name == "evaluation":
        return advice
    # Evaluations stay, and the loop's mean step contains them.
    return [
        replace(one, expected_step_ms=one.expected_step_ms + facts.evaluation_ms)
        if one.expected_step_ms is not None
        else one
        for one in advice
    ]


def _too_short(facts: VerdictFacts, lacking: list[str]) -> Verdict:
    said = f"The job has only {counted(facts.steady_steps, 'steady step')}, which is too few for a verdict."
    enough = f"{MIN_STEPS} steady steps, or {LONG_STEPS_MS / 1000:.0f} s of them"
    how = f"Train for longer: a verdict needs {enough}."
    if not facts.steady_steps:
        said = NO_STEP
        how = f"Record steps: {job_advice.RECORD_STEPS}."
    missing = ["steps", *lacking]
    return Verdict(suspect="inconclusive", sentence=said, advice=[Advice(how, None, "")], missing=missing)


def _innocent(
    facts: VerdictFacts, excluded: list[dict[str, str]], lacking: list[str], smaller: list[SmallerShare]
) -> Verdict:
    load = facts.load
    gpu = load.gpu_p50 if load else None
    if gpu is None and facts.kernels is not None:
        gpu = facts.kernels.busy_pct
    loading, compute, other = facts.share("data_loading"), facts.compute_share, facts.share("other")
    unsure = partial(Verdict, suspect="inconclusive", ruled_out=excluded)
    of_compute, of_loading = facts.of_time(*COMPUTE), facts.of_time("data_loading")
    evidence = [
        facts.seen(f"compute takes {pct(compute)} {of_compute}", "compute", compute),
        facts.seen(f"data loading takes {pct(loading)} {of_loading}", "data_loading", loading, DATA_SHARE),
    ]
    if facts.device_pct is not None and facts.device_ms is not None:
        step = facts.step_ms or 0.0
        text = f"the device computes {ms(facts.device_ms)} of a step of {ms(step)}"
        if facts.device_ms > step:  # the host waits for several steps at once
            text = f"the device computes {ms(facts.device_ms)} for a step, whose call takes {ms(step)}"
        evidence.append(facts.seen(text, "device", facts.device_pct))
    if gpu is not None:
        how = " (median)" if load is not None and load.gpu_p50 is not None else " of the profiled steps"
        text = f"the GPUs are busy {pct(gpu)}{how}"
        evidence.append(facts.seen(text, "gpu.util", gpu, GPU_BUSY, load.node if load else None))
        if gpu < GPU_BUSY:
            said = f"The GPUs are busy only {pct(gpu)}{how}, and no suspect explains it."
            return unsure(sentence=said, evidence=evidence, missing=lacking or ["kernel trace"])
    elif facts.device == "cuda":
        said = "The GPUs were not sampled, and no part of the step stands out."
        return unsure(sentence=said, evidence=evidence, missing=lacking)
    elif other >= UNEXPLAINED:
        stall = facts.of_time_with_stall("other")
        where = "in the loop's own code"
        if facts.not_seen:
            where = f"in {' and '.join(facts.not_seen)}, which no hook observed, or in the loop's own code"
        text = f"{pct(other)} {stall} is spent outside all known parts, {where}"
        return unsure(
            sentence=sentence(text),
            evidence=[facts.seen(text, "other", other, UNEXPLAINED), *evidence],
            advice=loop_advice.unnamed_code(facts),
            missing=[*([] if facts.python else ["profile of the Python code"]), *lacking],
        )
    stall = facts.of_time_with_stall(*COMPUTE)
    also = f", and {pct(loading)} is data loading"
    if any(one.suspect == "data_pipeline" for one in smaller):
        also = ""
    said = f"No bottleneck found: {pct(compute)} {stall} is compute{also}."
    if facts.framework is None and (phases := [one for one in facts.named_work if one.part == "compute"]):
        said += f" The largest phase is {phases[0].name} with {pct(phases[0].pct)}."
    if gpu is not None:
        said += f" The GPUs are busy {pct(gpu)}."
    return Verdict(
        suspect="healthy",
        sentence=" ".join([said, *_said(smaller)]),
        evidence=evidence,
        ruled_out=excluded,
        advice=loop_advice.eager(facts),
        missing=lacking,
    )
