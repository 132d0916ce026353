"""The verdict: which suspect it is, with evidence, what was ruled out, and what to do."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from holter.analysis.loading.dataloading import COMPUTE
from holter.analysis.verdict import advice as advise
from holter.analysis.verdict import candidates, troubles
from holter.analysis.verdict.advice import Advice, ordered
from holter.analysis.verdict.candidates import DATA_INNOCENT, DATA_SHARE, GPU_BUSY
from holter.analysis.verdict.evidence import Evidence, pct, seen

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.analysis.verdict.candidates import Candidate
    from holter.analysis.verdict.facts import Facts

CANDIDATES: dict[str, Callable[[Facts], Candidate]] = {
    "data_pipeline": candidates.data_pipeline,
    "model_compute": candidates.model_compute,
    "communication": candidates.communication,
    "framework_overhead": candidates.framework_overhead,
    "checkpointing": troubles.checkpointing,
    "memory_pressure": troubles.memory_pressure,
    "hardware": troubles.hardware,
}

SUSPECTS = (*CANDIDATES, "mixed", "healthy", "inconclusive")
"""Every verdict there is."""

MIN_STEPS = 5
"""Fewer steady steps are no ground for a verdict."""

UNEXPLAINED = 30.0
"""More of the step than this in none of the known parts: the data do not tell why."""

_ADVICE: dict[str, Callable[[Facts], list[Advice]]] = {
    "data_pipeline": advise.data_pipeline,
    "checkpointing": advise.checkpointing,
    "model_compute": advise.model_compute,
    "framework_overhead": advise.framework_overhead,
    "memory_pressure": advise.memory_pressure,
    "hardware": advise.hardware,
}


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Why a training is slow, or that it is not."""

    suspect: str
    """One of `SUSPECTS`."""
    sentence: str
    share_pct: float | None = None
    """Percent of the loop that it is about."""
    also: list[str] = field(default_factory=list)
    """Of a mixed verdict the suspects, the larger first; else a second one that explains the first."""
    evidence: list[Evidence] = field(default_factory=list)
    ruled_out: list[dict[str, str]] = field(default_factory=list)
    advice: list[Advice] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """Kinds of data that would tell more."""

    def to_json(self) -> dict[str, Any]:
        """Return what `describe --json` says under `verdict`."""
        return {
            "suspect": self.suspect,
            "also": list(self.also),
            "share_pct": self.share_pct,
            "sentence": self.sentence,
            "evidence": [item.to_json() for item in self.evidence],
            "ruled_out": [dict(item) for item in self.ruled_out],
            "advice": [
                {"text": a.text, "expected_step_ms": a.expected_step_ms, "why": a.why} for a in self.advice
            ],
            "missing": list(self.missing),
        }


def verdict(facts: Facts) -> Verdict:
    """Judge a job.

    Each suspect is tested on its own. One that qualifies is the verdict, several are `mixed`. When none does,
    the job is `healthy` if its time is accounted for: compute fills the step of a CPU job, or the GPUs are
    busy. Otherwise it is `inconclusive`, and `missing` says what would tell.

    `healthy` and `model_compute` differ so: compute may well fill the step of a healthy job. The model is
    the suspect only when it is slower than a baseline, or when the GPUs are saturated (median from 95 %), so
    that nothing but less work can make the step shorter.
    """
    found = _verdict(facts)
    return replace(found, evidence=[*found.evidence, *facts.look.evidence()]) if facts.look else found


def _verdict(facts: Facts) -> Verdict:
    lacking = troubles.missing(facts)
    if facts.steady_steps < MIN_STEPS:
        return _too_short(facts, lacking)
    tested = {name: test(facts) for name, test in CANDIDATES.items()}
    told = _by_kernels(facts, [name for name, found in tested.items() if not found.guilty])
    tested |= {name: found for name, (found, _) in told.items()}
    guilty = {name: c for name, c in tested.items() if c.guilty}
    straggler = facts.stragglers[0] if facts.stragglers else None
    also: list[str] = []
    if straggler and "communication" in guilty and straggler.part == "data_loading":
        # The slow rank's own loading is what all others wait for: one trouble, not two.
        guilty.pop("data_pipeline", None)
        also = ["data_pipeline"]
    ruled_out = [
        {"suspect": name, "because": c.because} for name, c in tested.items() if not c.guilty and c.because
    ]
    if not guilty:
        return _innocent(facts, ruled_out, lacking)
    names = sorted(guilty, key=lambda name: -(guilty[name].share or 0.0))
    shares = [share for name in names if (share := guilty[name].share) is not None]
    return Verdict(
        suspect=names[0] if len(names) == 1 else "mixed",
        sentence=" ".join(guilty[name].sentence for name in names),
        share_pct=min(sum(shares), 100.0) if shares else None,
        also=also if len(names) == 1 else names,
        evidence=[item for name in names for item in guilty[name].evidence],
        ruled_out=ruled_out,
        advice=ordered([a for n in names for a in (told[n][1] if n in told else _advice(n, facts))]),
        missing=lacking,
    )


def _by_kernels(facts: Facts, innocent: list[str]) -> dict[str, tuple[Candidate, list[Advice]]]:
    """Test again, by what a profiling window saw, those whom the host's time does not find guilty."""
    if facts.look is None:
        return {}
    if facts.share("data_loading") >= candidates.DATA_INNOCENT:
        innocent = [name for name in innocent if name != "framework_overhead"]  # it waits for batches
    return {name: again for name in innocent if (again := facts.look.suspect(name)) is not None}


def _advice(name: str, facts: Facts) -> list[Advice]:
    if name == "communication":
        return advise.communication(facts, facts.stragglers[0] if facts.stragglers else None)
    return _ADVICE[name](facts)


def _too_short(facts: Facts, lacking: list[str]) -> Verdict:
    count = facts.steady_steps
    sentence = f"Only {count} steady steps were recorded: too few to say why the training takes its time."
    how = f"Record {MIN_STEPS} steady steps or more: let it train longer."
    if not count:
        sentence = "No training step was recorded, so why the training takes its time cannot be told."
        how = f"Record steps: {advise.RECORD_STEPS}."
    return Verdict(
        suspect="inconclusive",
        sentence=sentence,
        advice=[advise.Advice(how, None, "")],
        missing=["steps", *lacking],
    )


def _innocent(facts: Facts, ruled_out: list[dict[str, str]], lacking: list[str]) -> Verdict:
    load = facts.load
    gpu = load.gpu_p50 if load else None
    if gpu is None and facts.kernels is not None:
        gpu = facts.kernels.busy_pct
    loading, compute, other = facts.share("data_loading"), facts.compute_share, facts.share("other")
    evidence = [
        seen(facts, f"compute takes {pct(compute)} of the step", "compute", compute),
        seen(facts, f"data loading takes {pct(loading)} of the step", "data_loading", loading, DATA_SHARE),
    ]
    if gpu is not None:
        sampled = load is not None and load.gpu_p50 is not None
        text = f"GPUs are busy {pct(gpu)} ({'median' if sampled else 'of the profiled steps'})"
        evidence.append(seen(facts, text, "gpu.util", gpu, GPU_BUSY, load.node if load else None))
        if gpu < GPU_BUSY:
            how = " (median)" if sampled else ""
            said = f"GPUs are busy only {pct(gpu)}{how}, and no suspect explains it."
            return _unsure(said, evidence, ruled_out, lacking or ["kernel trace"])
    elif facts.device == "cuda":
        said = "The GPUs were not sampled, and no part of the step stands out."
        return _unsure(said, evidence, ruled_out, lacking)
    elif other >= UNEXPLAINED:
        where = "in the loop's own code"
        if facts.not_seen:
            where = f"in {' and '.join(facts.not_seen)}, which were not seen, or in the loop's own code"
        said = f"{pct(other)} {facts.of_time('other')} is spent outside of every known part, {where}."
        evidence = [seen(facts, said[:-1], "other", other, UNEXPLAINED), *evidence]
        unsure = _unsure(said, evidence, ruled_out, ["profile of the Python code", *lacking])
        return replace(unsure, advice=advise.own_code(facts))
    busy = f", GPUs are busy {pct(gpu)}" if gpu is not None else ""
    little = "Nothing holds it back" if loading < DATA_INNOCENT else "Little holds it back"
    less = "" if loading < DATA_INNOCENT else f", which is a suspect from {pct(DATA_SHARE)} on"
    return Verdict(
        suspect="healthy",
        sentence=f"{little}: {pct(compute)} {facts.of_time(*COMPUTE)} is compute, {pct(loading)} "
        f"data loading{less}{busy}.",
        share_pct=None,
        evidence=evidence,
        ruled_out=ruled_out,
        missing=lacking,
    )


def _unsure(
    sentence: str, evidence: list[Evidence], ruled_out: list[dict[str, str]], lacking: list[str]
) -> Verdict:
    return Verdict(
        suspect="inconclusive", sentence=sentence, evidence=evidence, ruled_out=ruled_out, missing=lacking
    )
