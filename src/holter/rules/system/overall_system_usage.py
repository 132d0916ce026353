"""OverallSystemUsage: summarises the use of CPU, GPU, memory, storage and network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.machine.snapshots import matrix, moments
from holter.rules import Issues, Place, Rule, Series, Window, rule_class
from holter.rules.engine.quantile_sketch import add, statistics

if TYPE_CHECKING:
    from numpy.typing import NDArray


_GROUPS: dict[str, tuple[tuple[str, ...], str]] = {
    "CPU": (("cpu.util",), "mean"),
    "GPU": (("gpu.util",), "mean"),
    "CPU memory": (("mem.used_pct",), "mean"),
    "GPU memory": (("gpu.mem.used_pct",), "mean"),
    "I/O": (("cpu.iowait",), "mean"),
    "Network": (("net.rx", "net.tx"), "sum"),
    "Disk": (("disk.read_bytes", "disk.write_bytes"), "sum"),
    "PCIe": (("gpu.pcie_rx", "gpu.pcie_tx"), "sum"),
    "GPU power": (("gpu.power",), "sum"),
}
"""The figures of each node: metrics, and how the values of their devices are combined."""


@rule_class
class OverallSystemUsage(Rule):
    """Statistics of each node's CPU, GPU, memory, I/O and network. It never fires."""

    reads = tuple(f"samples/{metric}" for metrics, _ in _GROUPS.values() for metric in metrics)
    severity = "info"
    formula = "never"
    packs = ("default", "performance", "sagemaker")
    every_s = 30.0

    def evaluate(self, window: Window) -> Issues:
        """Add the new readings, and hand over min, p50, p95, p99 and max of all readings."""
        sketches = window.state.setdefault("sketches", {})
        for group, (metrics, how) in _GROUPS.items():
            series: dict[Place, Series] = {}
            for metric in metrics:
                # Devices of different metrics must stay separate.
                found = window.series(metric, new=True).items()
                series |= {(node, f"{metric}/{device}"): one for (node, device), one in found}
            for node in sorted({node for node, _ in series}):
                at = moments(series, node)
                window.judged(len(at))
                add(
                    sketches.setdefault(node, {}).setdefault(group, {}),
                    _together(matrix(series, node, at), how),
                )
            if group == "GPU":
                for (node, device), one in series.items():
                    name = device.partition("/")[2]
                    add(sketches.setdefault(node, {}).setdefault(name, {}), one.value)
        if not sketches:
            window.insufficient("no_input", "no reading of the machine")
        window.hand_over(
            lambda: {
                "nodes": {
                    node: {g: statistics(s) for g, s in groups.items()} for node, groups in sketches.items()
                }
            }
        )
        yield from ()


def _together(readings: NDArray[np.float64], how: str) -> NDArray[np.float64]:
    # A device without readings is left out; it does not count as idle.
    known = np.isfinite(readings)
    total = np.where(known, readings, 0.0).sum(axis=0)
    return np.asarray(total if how == "sum" else total / np.maximum(known.sum(axis=0), 1))
