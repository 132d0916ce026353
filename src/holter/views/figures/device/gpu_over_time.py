"""Utilization of each node's accelerators over time, where they were profiled."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.device.busy import LEAST_BIN_NS, busy_pct
from holter.views.figure import Axis, Figure, Series
from holter.views.figures.device._shares import profiled
from holter.views.figures.machine._samples import NO_GPU, by_node

if TYPE_CHECKING:
    from holter.views.reading import Reading

MISSING = NO_GPU


def draw(reading: Reading, *, rank: int | None = None, device: int | None = None) -> Figure | None:
    """Draw the mean over each node's GPUs: of kernels and copies where there are any, else of samples."""
    if not reading.profiled.ran:
        of_device = "true" if device is None else f"device = 'gpu{int(device)}'"
        return by_node(reading, "GPU utilization", "gpu.util", of_device)
    found = reading.profiled.activity(profiled(reading, rank, device))
    if not found:
        return None
    first = min(int(one.looked.begin[0]) for one in found.values())
    last = max(int(one.looked.end[-1]) for one in found.values())
    count = max(1, min(reading.width, (last - first) // LEAST_BIN_NS))
    edges = np.linspace(first, last, count + 1).astype(np.int64)
    nodes: dict[str, list[Any]] = defaultdict(list)
    for (of_rank, _), one in found.items():
        nodes[reading.profiled.nodes[of_rank]].append(busy_pct(one, edges))
    middles = ((edges[:-1] + edges[1:]) / 2 - reading.start) / 1e9
    return Figure(
        title="GPU utilization",
        kind="lines",
        x=middles.tolist(),
        x_axis=Axis("time since the start", "s"),
        y_axis=Axis("busy", "%", top=100.0),
        series=[Series(node, _mean(rows)) for node, rows in sorted(nodes.items())],
        note=f"Share of each {(edges[1] - edges[0]) / 1e6:.3g} ms in which a kernel, a copy or a fill ran; "
        "mean of the node's GPUs. A gap was not profiled.",
    )


def _mean(rows: list[Any]) -> list[float | None]:
    known = ~np.isnan(rows)
    number = known.sum(axis=0)
    total = np.where(known, rows, 0.0).sum(axis=0)
    return [float(t / n) if n else None for t, n in zip(total, number, strict=True)]
