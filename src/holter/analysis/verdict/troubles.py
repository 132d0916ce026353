"""Suspects beside the four classic ones: checkpoints, host memory, hardware; and what a job does not tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.verdict.candidates import GPU_BUSY, Candidate
from holter.analysis.verdict.evidence import pct, seen

if TYPE_CHECKING:
    from holter.analysis.verdict.facts import Facts

CHECKPOINT_SHARE = 10.0
PRESSURE = 10.0
MEMORY_FULL = 95.0
SWAPPED_BYTES = 2**28
THROTTLED = 10.0
_WORTH_SPLITTING = 15.0


def checkpointing(facts: Facts) -> Candidate:
    """Writing checkpoints takes 10 % of the loop and more."""
    share = facts.breakdown.get("checkpoint", 0.0)
    if share < CHECKPOINT_SHARE:
        return Candidate(because=f"checkpoints take {pct(share)} of the loop")
    text = f"writing checkpoints takes {pct(share)} of the loop"
    return Candidate(
        guilty=True,
        sentence=_sentence(text),
        share=share,
        evidence=[seen(facts, text, "checkpoint", share, CHECKPOINT_SHARE)],
    )


def memory_pressure(facts: Facts) -> Candidate:
    """A host swaps, or tasks on it wait for memory."""
    for load in facts.loads:
        pressure, swap, used = load.memory_pressure_p50, load.swap_growth_bytes, load.memory_p95
        if pressure is not None and pressure >= PRESSURE:
            text = f"tasks on {load.node} wait for memory {pct(pressure)} of the time"
            found = seen(facts, text, "psi.mem", pressure, PRESSURE, load.node)
        elif used is not None and used >= MEMORY_FULL and swap is not None and swap > SWAPPED_BYTES:
            text = f"memory of {load.node} is {pct(used)} full and {swap / 2**30:.1f} GiB went to swap"
            found = seen(facts, text, "mem.used_pct", used, MEMORY_FULL, load.node)
        else:
            continue
        return Candidate(guilty=True, sentence=_sentence(text), evidence=[found])
    return Candidate()


def hardware(facts: Facts) -> Candidate:
    """A GPU's clocks are lowered by heat or power faults, or its memory has errors."""
    for load in facts.loads:
        throttled, errors = load.throttled_pct, load.ecc_errors
        if throttled is not None and throttled >= THROTTLED:
            gpu = f"{load.throttled_gpu} on {load.node}"
            text = f"heat or power lowers the clocks of {gpu} {pct(throttled)} of the time"
            found = seen(facts, text, "gpu.throttle_reasons", throttled, THROTTLED, load.node)
        elif errors:
            text = f"a GPU on {load.node} had {errors:.0f} uncorrected memory errors"
            found = seen(facts, text, "gpu.ecc_uncorrected", errors, 0.0, load.node)
        else:
            continue
        return Candidate(guilty=True, sentence=_sentence(text), evidence=[found])
    return Candidate()


def missing(facts: Facts) -> list[str]:
    """Name the kinds of data that this job lacks and that a suspect's test would use."""
    load, loading = facts.load, facts.loading
    lacking = []
    if load is None or load.cpu_p50 is None:
        lacking.append("CPU samples")
    if facts.device == "cuda" and (load is None or load.gpu_p50 is None):
        lacking.append("GPU samples")
    if load is not None and load.gpu_p50 is not None and facts.kernels is None and load.gpu_p50 < GPU_BUSY:
        lacking.append("kernel trace")
    if loading is not None and loading.share_pct >= _WORTH_SPLITTING:
        if not loading.stages:
            lacking.append("what the data-loader workers do")
        elif loading.stages.get("fetch", 0.0) >= _WORTH_SPLITTING:
            lacking.append("stack samples of the dataset")
    lacking += [f"{part}, which counts as other" for part in facts.not_seen]
    return [*lacking, *facts.not_counted]


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
