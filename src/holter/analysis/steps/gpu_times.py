"""Sums how long the parts of the measured steps took on the GPU, and on the host."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holter.analysis.events import details
from holter.schema.phases import BREAKDOWN

if TYPE_CHECKING:
    from holter.schema.table import Table

_STEP, _OTHER = "step", "other"


@dataclass(frozen=True, slots=True)
class GpuPart:
    """A part of a step: its mean time on the GPU and on the host in the measured steps, ms."""

    part: str
    gpu_ms: float
    host_ms: float
    pct: float
    """Percent of the steps' time on the GPU."""


@dataclass(frozen=True, slots=True)
class GpuTimes:
    """Times between CUDA events in a few steps of all ranks."""

    steps: int
    left_out: int
    """Steps whose events could not be read."""
    gpu_ms: float
    """Mean time of a step on the GPU."""
    host_ms: float
    parts: list[GpuPart]
    """In the order of `BREAKDOWN`; `other` is the rest of the step."""


def gpu_times(events: Table | None) -> GpuTimes | None:
    """Return the times of the parts on the GPU; None if no step was measured.

    Args:
        events: Table `events`, with the kind gpu_time.
    """
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    steps = left_out = 0
    for _, detail in details(events, "gpu_time"):
        parts, count = detail.get("parts"), detail.get("steps")
        if not isinstance(parts, dict) or not _natural(count) or _STEP not in parts:
            continue
        if not all(isinstance(one, dict) and _natural(one.get("gpu")) and _natural(one.get("host"))
                   for one in parts.values()):  # fmt: skip
            continue
        steps += int(count)  # type: ignore[arg-type]
        left_out += int(detail["left_out"]) if _natural(detail.get("left_out")) else 0
        for part, one in parts.items():
            sums[part][0] += one["gpu"]
            sums[part][1] += one["host"]
    if not steps or not sums[_STEP][0]:
        return None
    gpu, host = sums.pop(_STEP)
    known = {part: sums[part] for part in BREAKDOWN if part in sums and part != _OTHER}
    rest = [gpu - sum(one[0] for one in known.values()), host - sum(one[1] for one in known.values())]
    known[_OTHER] = [max(one, 0) for one in rest]
    found = [
        GpuPart(part, mine / steps / 1e6, its / steps / 1e6, 100.0 * mine / gpu)
        for part, (mine, its) in known.items()
    ]
    return GpuTimes(steps, left_out, gpu / steps / 1e6, host / steps / 1e6, found)


def _natural(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
