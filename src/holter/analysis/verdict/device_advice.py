"""Advice on each suspect of a trace, computed from the trace's own numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.verdict.device_suspects import MANY_ALLOCATIONS
from holter.analysis.verdict.evidence import pct, us
from holter.analysis.verdict.result import Advice

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.analysis.verdict.device_facts import DeviceFacts


def _load_data(facts: DeviceFacts) -> list[Advice]:
    lost = facts.breakdown["data_loading"]
    found = []
    if lost >= facts.h2d_pct:
        expected = facts.step_ms * (1 - lost / 100) if facts.step_ms and facts.steps > 1 else None
        text = (
            "Load the next batch while this one runs: use DataLoader workers (num_workers) or prepared data."
        )
        found.append(Advice(text, expected, f"the accelerator idles {pct(lost)} of the time for batches"))
    if facts.pageable and facts.h2d_pct >= 1:
        text = "Copy from pinned memory without blocking: pin_memory=True and non_blocking=True."
        found.append(Advice(text, None, f"{facts.pageable} copies use pageable memory"))
    return found


def _communicate(facts: DeviceFacts) -> list[Advice]:
    if facts.late:
        late = facts.late[0]
        what = "what its host does between collectives (data loading, Python, a busy core)"
        if late.cause == "device":
            what = "its share of the work and its accelerator's clocks"
        return [Advice(f"Examine rank {late.rank}: {what}.", None, "the other ranks wait for it")]
    text = (
        "Overlap communication with the backward pass: use larger buckets, prefetching or gradient "
        "accumulation."
    )
    return [
        Advice(text, None, f"exposed communication takes {pct(facts.breakdown['communication'])} of the time")
    ]


def _launch_less(facts: DeviceFacts) -> list[Advice]:
    if facts.after_sync_pct >= facts.breakdown["host"] / 2:
        text = "Wait for the accelerator less often: avoid .item(), .cpu() and print of a tensor in the loop."
        return [
            Advice(
                text, None, f"the accelerator idles {pct(facts.after_sync_pct)} of the time after such waits"
            )
        ]
    if facts.pageable and any(name.startswith("cudaMemcpy") for name, _ in facts.blamed["host"][:3]):
        text = "Copy from pinned memory without blocking: pin_memory=True and non_blocking=True."
        return [
            Advice(text, None, f"the host waits in {facts.pageable} copies from pageable memory"),
            _fewer_launches(facts),
        ]
    return [_fewer_launches(facts)]


def _fewer_launches(facts: DeviceFacts) -> Advice:
    text = (
        "Launch less: use torch.compile or CUDA graphs, fused optimizers (foreach, fused), or larger batches."
    )
    return Advice(text, None, f"the median kernel takes {us(facts.median_kernel_us)}")


def _allocate_less(facts: DeviceFacts) -> list[Advice]:
    if facts.allocations >= MANY_ALLOCATIONS:
        text = (
            "Keep freed memory: avoid PYTORCH_NO_CUDA_MEMORY_CACHING and torch.cuda.empty_cache() in the "
            "loop. If memory is short, use a smaller batch."
        )
        why = (
            f"{facts.allocations:,} calls allocate or free memory, for {pct(facts.breakdown['allocation'])} "
            "of the time"
        )
        return [Advice(text, None, why)]
    text = (
        "Profile after a few steps of warm-up. If the allocations stay, use a smaller batch or "
        "expandable_segments:True."
    )
    return [
        Advice(text, None, f"allocation takes {pct(facts.breakdown['allocation'])} of the accelerator's time")
    ]


def _save_aside(facts: DeviceFacts) -> list[Advice]:
    text = "Write checkpoints in the background (asynchronous saving), or less often."
    return [
        Advice(
            text, None, f"the accelerator idles {pct(facts.breakdown['checkpoint'])} of the time meanwhile"
        )
    ]


def faster(facts: DeviceFacts) -> list[Advice]:
    """Advise on an accelerator that computes nearly all the time."""
    text = "Make the kernels cheaper: use lower precision, fused kernels, or less work."
    return [Advice(text, None, f"the accelerator computes {pct(facts.breakdown['compute'])} of the time")]


ADVICE: dict[str, Callable[[DeviceFacts], list[Advice]]] = {
    "data_pipeline": _load_data,
    "communication": _communicate,
    "framework_overhead": _launch_less,
    "memory_pressure": _allocate_less,
    "checkpointing": _save_aside,
}
