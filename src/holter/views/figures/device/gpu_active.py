"""Share of the profiled time in which the accelerators were active."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.views.figure import Axis, Figure, shares
from holter.views.figures.device._shares import profiled
from holter.views.figures.machine._samples import NO_GPU, readings

if TYPE_CHECKING:
    from holter.views.reading import Reading

MISSING = NO_GPU


def draw(reading: Reading, *, rank: int | None = None, device: int | None = None) -> Figure | None:
    """Draw active and idle time: of kernels and copies where these were recorded, else of samples."""
    if not reading.profiled.ran:
        of_device = "true" if device is None else f"device = 'gpu{int(device)}'"
        return readings(reading, "GPU active time", "gpu.util", of_device)
    found = reading.profiled.activity(profiled(reading, rank, device)).values()
    if not found:
        return None
    whole, ran = (sum(part.length for part in parts) / 1e9 for parts in zip(*found, strict=True))
    return shares(
        "GPU active time",
        {"active": ran, "idle": whole - ran},
        Axis("time of all GPUs", "s"),
        note="Active: a kernel, a copy or a fill ran.",
    )
