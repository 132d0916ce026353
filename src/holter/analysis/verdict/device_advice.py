"""Advice on each suspect of a trace, computed from the trace's own numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.device.arrivals import late_together
from holter.analysis.slow_group import ranks_text
from holter.analysis.verdict.device_suspects import MANY_ALLOCATIONS
from holter.analysis.verdict.evidence import pct, us
from holter.analysis.verdict.result import Advice

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.analysis.verdict.device_facts import DeviceFacts


_PIN = "Copy from pinned memory without blocking: pin_memory=True and non_blocking=True."


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
        found.append(Advice(_PIN, None, f"{facts.pageable} copies use pageable memory"))
    return found


def _communicate(facts: DeviceFacts) -> list[Advice]:
    if facts.late:
        group = late_together(facts.late)
        its = "its" if len(group) == 1 else "their"
        what = f"what {its} host does between collectives (data loading, Python, a busy core)"
        if group[0].cause == "device":
            what = f"{its} share of the work and {its} accelerator's clocks"
        return [
            Advice(f"Examine {ranks_text([r.rank for r in group])}: {what}.", None, "the other ranks wait")
        ]
    text = "Overlap communication with the backward pass: larger buckets, prefetching, gradient accumulation."
    why = f"exposed communication takes {pct(facts.breakdown['communication'])} of the time"
    return [Advice(text, None, why)]


def _launch_less(facts: DeviceFacts) -> list[Advice]:
    if facts.after_sync_pct >= facts.breakdown["host"] / 2:
        text = "Wait for the accelerator less often: avoid .item(), .cpu() and print of a tensor in the loop."
        why = f"the accelerator idles {pct(facts.after_sync_pct)} of the time after such waits"
        return [Advice(text, None, why)]
    text = (
        "Launch less: use torch.compile or CUDA graphs, fused optimizers (foreach, fused), or larger batches."
    )
    found = [Advice(text, None, f"the median kernel takes {us(facts.median_kernel_us)}")]
    if facts.pageable and any(name.startswith("cudaMemcpy") for name, _ in facts.blamed["host"][:3]):
        found = [
            Advice(_PIN, None, f"the host waits in {facts.pageable} copies from pageable memory"),
            *found,
        ]
    return found


def _allocate_less(facts: DeviceFacts) -> list[Advice]:
    share = pct(facts.breakdown["allocation"])
    if facts.allocations >= MANY_ALLOCATIONS:
        text = (
            "Keep freed memory: avoid PYTORCH_NO_CUDA_MEMORY_CACHING and torch.cuda.empty_cache() in the "
            "loop. If memory is short, use a smaller batch."
        )
        why = f"{facts.allocations:,} calls allocate or free memory, for {share} of the time"
        return [Advice(text, None, why)]
    text = (
        "Profile after a few steps of warm-up. If the allocations stay, use a smaller batch or "
        "expandable_segments:True."
    )
    return [Advice(text, None, f"allocation takes {share} of the accelerator's time")]


def _save_aside(facts: DeviceFacts) -> list[Advice]:
    text = "Write checkpoints in the background (asynchronous saving), or less often."
    why = f"the accelerator idles {pct(facts.breakdown['checkpoint'])} of the time meanwhile"
    return [Advice(text, None, why)]


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
