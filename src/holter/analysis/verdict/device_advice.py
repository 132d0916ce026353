"""What to do about each suspect of a trace of accelerators, from the trace's own numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.verdict.advice import Advice
from holter.analysis.verdict.device_candidates import MANY_ALLOCATIONS
from holter.analysis.verdict.evidence import pct, us

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.analysis.verdict.device_facts import DeviceFacts


def _load_data(facts: DeviceFacts) -> list[Advice]:
    lost = facts.breakdown["data_loading"]
    found = []
    if lost >= facts.h2d_pct:
        expected = facts.step_ms * (1 - lost / 100) if facts.step_ms and facts.steps > 1 else None
        text = "Load the next batch while this one runs: DataLoader workers (num_workers), or prepared data."
        found.append(Advice(text, expected, f"the accelerator idles {pct(lost)} of the time for batches"))
    if facts.pageable and facts.h2d_pct >= 1:
        text = "Copy from pinned memory, without blocking: pin_memory=True and non_blocking=True."
        found.append(Advice(text, None, f"{facts.pageable} copies come from pageable memory"))
    return found


def _communicate(facts: DeviceFacts) -> list[Advice]:
    if facts.late:
        late = facts.late[0]
        what = "what its host does between collectives: loading, Python, a busy core"
        if late.cause == "device":
            what = "its share of the work and its accelerator's clocks"
        return [Advice(f"Look at rank {late.rank}: {what}.", None, "the others wait for it")]
    text = (
        "Overlap communication with backward: larger buckets less often, prefetching, gradient accumulation."
    )
    return [
        Advice(text, None, f"{pct(facts.breakdown['communication'])} of the time nothing else runs meanwhile")
    ]


def _launch_less(facts: DeviceFacts) -> list[Advice]:
    if facts.after_sync_pct >= facts.breakdown["host"] / 2:
        text = "Wait for the accelerator less often: no .item(), .cpu() or print of a tensor in the loop."
        return [Advice(text, None, f"it idles {pct(facts.after_sync_pct)} of the time after such waits")]
    if facts.pageable and any(name.startswith("cudaMemcpy") for name, _ in facts.blamed["host"][:3]):
        text = "Copy from pinned memory, without blocking: pin_memory=True and non_blocking=True."
        return [
            Advice(text, None, f"the host waits in {facts.pageable} copies from pageable memory"),
            _fewer_launches(facts),
        ]
    return [_fewer_launches(facts)]


def _fewer_launches(facts: DeviceFacts) -> Advice:
    text = "Launch less: torch.compile or CUDA graphs, fused optimizers (foreach, fused), larger batches."
    return Advice(text, None, f"the median kernel takes {us(facts.median_kernel_us)}")


def _allocate_less(facts: DeviceFacts) -> list[Advice]:
    if facts.allocations >= MANY_ALLOCATIONS:
        text = (
            "Keep freed memory: no PYTORCH_NO_CUDA_MEMORY_CACHING, no torch.cuda.empty_cache() in the loop; "
            "if it is short, a smaller batch."
        )
        why = (
            f"{facts.allocations:,} calls allocate or free, {pct(facts.breakdown['allocation'])} of the time"
        )
        return [Advice(text, None, why)]
    text = (
        "Profile after a few steps of warm-up; if it stays, leave the allocator room: a smaller batch, or "
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
    """Advise where computing is all there is."""
    text = "Make the kernels themselves cheaper: lower precision, fused kernels, less work."
    return [Advice(text, None, f"the accelerator computes {pct(facts.breakdown['compute'])} of the time")]


ADVICE: dict[str, Callable[[DeviceFacts], list[Advice]]] = {
    "data_pipeline": _load_data,
    "communication": _communicate,
    "framework_overhead": _launch_less,
    "memory_pressure": _allocate_less,
    "checkpointing": _save_aside,
}
