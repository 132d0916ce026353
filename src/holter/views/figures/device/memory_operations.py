"""Share of each kind of copy and fill in the time of memory operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.device.kernel_statistics import memory_table
from holter.analysis.device.work import COPIES
from holter.views.document.profiled import HOW
from holter.views.figure import Axis, Figure, shares
from holter.views.figures.device._shares import profiled

if TYPE_CHECKING:
    from holter.views.reading import Reading

MISSING = f"No copy or fill of an accelerator's memory was recorded. {HOW}"


def draw(reading: Reading, *, rank: int | None = None, device: int | None = None) -> Figure | None:
    """Draw each kind's share of the time, pageable and pinned memory of the host apart."""
    rows = list(memory_table(profiled(reading, rank, device)).to_rows())
    if not rows:
        return None
    return shares(
        "GPU memory operations",
        {
            f"{COPIES.get(row['kind'], row['kind'])} {row['memory']}".strip(): row["total_ns"] / 1e9
            for row in rows
        },
        Axis("time", "s"),
    )
