"""Judges a PyTorch training that was recorded from outside, by its stack samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.verdict.evidence import Evidence, counted, pct
from holter.analysis.verdict.result import (
    BOTTLENECK,
    CHECKPOINT_SHARE,
    COMMUNICATION_SHARE,
    GPU_BUSY,
    Advice,
    Verdict,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.analysis.host.training_parts import TrainingPart, TrainingParts

LEAST_SAMPLES = 60
"""With fewer samples a share of 30 % may be off by more than 12 points; no cause is named."""
_NAMED = 1.0
_COMPUTE = ("forward", "loss", "backward", "optimizer")
_HEALTHY = 70.0
_TEXTS = {"data_loading": "data loading", "other": "other code"}
_LIMITS = {
    "data_loading": ("data_pipeline", BOTTLENECK),
    "communication": ("communication", COMMUNICATION_SHARE),
    "checkpoint": ("checkpointing", CHECKPOINT_SHARE),
    "compile": ("framework_overhead", BOTTLENECK),
    "other": ("own_code", BOTTLENECK),
}
"""Part → suspect, and the percentage from which on it is one."""
_EXACT = "Start it with `holter run -- COMMAND` to get steps, and the parts of each step."


def judged(found: TrainingParts, gpu_pct: float | None) -> Verdict:
    """Return the verdict; `gpu_pct` is the median use of the GPUs, None without GPUs."""
    guilty = [
        (suspect, one)
        for one in found.parts
        for suspect, limit in [_LIMITS.get(one.part, ("", 0.0))]
        if suspect and one.pct >= limit
    ]
    parts = ", ".join(f"{_text(one)} {pct(one.pct)}" for one in found.parts if one.pct >= _NAMED)
    of = (
        f"of {counted(found.processes, 'training process', 'training processes')}"
        if found.processes > 1
        else ""
    )
    shares = (
        f"{parts[:1].upper()}{parts[1:]} of the time {of}".rstrip()
        + f" ({counted(found.samples, 'stack sample')})."
    )
    if found.samples < LEAST_SAMPLES:
        few = f"Too few samples for a verdict (at least {LEAST_SAMPLES}). {shares}"
        return Verdict(suspect="inconclusive", sentence=few, advice=[_exact()])
    if guilty:
        suspect, worst = guilty[0]
        return Verdict(
            suspect=suspect,
            also=[name for name, _ in guilty[1:]],
            share_pct=worst.pct,
            sentence=f"{_cause(worst, found)} {shares}",
            evidence=list(_evidence(found)),
            advice=[*_advice(worst, found), _exact()],
        )
    healthy = found.share(*_COMPUTE) >= _HEALTHY and (gpu_pct is None or gpu_pct >= GPU_BUSY)
    said = f"The training computes. {shares}" if healthy else f"No part stands out. {shares}"
    return Verdict(
        suspect="healthy" if healthy else "inconclusive",
        sentence=said,
        evidence=list(_evidence(found)),
        advice=[_exact()],
    )


def _text(one: TrainingPart) -> str:
    return _TEXTS.get(one.part, one.part)


def _cause(one: TrainingPart, found: TrainingParts) -> str:
    share, where = pct(one.pct), f" in {one.where}" if one.where else ""
    if one.part == "data_loading":
        said = f"The training waits {share} of the time for data{where}"
        if found.workers is not None and found.workers.inner:
            return f"{said}; the workers of the loader spend most of their work in {found.workers.inner}."
        return f"{said}, mostly in {one.inner}." if one.inner else f"{said}."
    if one.part == "other":
        return f"Code outside of the model takes {share} of the time, mostly{where or ' in unknown places'}."
    does = {
        "communication": "waits for other ranks",
        "checkpoint": "writes checkpoints",
        "compile": "compiles",
    }[one.part]
    return f"The training {does} {share} of the time{where}."


def _advice(one: TrainingPart, found: TrainingParts) -> Iterator[Advice]:
    if one.part == "data_loading":
        if found.workers is None:
            text = "Build batches in other processes: DataLoader(num_workers=N)."
            yield Advice(
                text, None, "no worker of a data loader runs; the training thread builds its batches"
            )
        else:
            busy = found.workers.busy_pct
            why = f"{counted(found.workers.count, 'worker')} build batches {pct(busy)} of the time"
            at = f" {found.workers.inner}" if found.workers.inner else " what they do"
            yield Advice(f"Make{at} faster, or use more workers if cores are free.", None, why)
    elif one.part == "checkpoint":
        yield Advice("Save less often, or with torch.distributed.checkpoint.async_save.", None, "")
    elif one.part == "communication":
        yield Advice("Find the rank that arrives last: `holter run` records each rank.", None, "")
    elif one.part == "other" and one.where:
        yield Advice(f"Make {one.where} faster, or move it out of the loop.", None, "")


def _exact() -> Advice:
    return Advice(_EXACT, None, "")


def _evidence(found: TrainingParts) -> Iterator[Evidence]:
    for one in found.parts:
        if one.pct < _NAMED:
            continue
        called = f", called from {one.where}" if one.where else ""
        if one.inner and one.part not in ("other",):
            called += f", {pct(one.inner_pct)} of it in {one.inner}"
        yield Evidence(
            f"{_text(one)} {pct(one.pct)}{called}", f"stacks.{one.part}", one.pct, None, one.where or None
        )
    if (workers := found.workers) is not None:
        busy = f"build batches {pct(workers.busy_pct)} of the time"
        text = f"{counted(workers.count, 'worker')} of data loaders {busy}"
        yield Evidence(
            text + (f", mostly in {workers.inner}" if workers.inner else ""),
            "stacks.workers",
            workers.busy_pct,
        )
