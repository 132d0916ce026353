"""OutlierNode: one node's metrics differ from those of all others, which do the same work."""

from __future__ import annotations

from collections import defaultdict

from holter.analysis.machine.outlier_nodes import FEWEST, outlier_nodes
from holter.rules import Issues, Lookback, Rule, Window, parameter, rule_class

_METRICS = (
    "cpu.util",
    "gpu.clock_sm",
    "gpu.mem.busy",
    "gpu.mem.used_pct",
    "gpu.pcie_rx",
    "gpu.pcie_tx",
    "gpu.power",
    "gpu.sm_active",
    "gpu.temp",
    "gpu.util",
    "mem.used_pct",
    "net.rx",
    "net.tx",
    "psi.cpu",
)
"""Metrics that are alike on all nodes of a training. Disks are not: one rank writes checkpoints."""
_LEAST = {"cpu.util": 10.0, "gpu.util": 10.0, "gpu.mem.busy": 10.0, "gpu.sm_active": 10.0, "psi.cpu": 10.0}
_LEAST |= {"mem.used_pct": 10.0, "gpu.mem.used_pct": 10.0, "net.rx": 1e6, "net.tx": 1e6}
_LEAST |= {"gpu.pcie_rx": 1e6, "gpu.pcie_tx": 1e6, "gpu.temp": 8.0, "gpu.power": 20.0}
"""Smaller differences are not reported, in the unit of the metric."""
_SHOWN = 4


@rule_class
class OutlierNode(Rule):
    """Metrics of one node differ from those of the other nodes for minutes: a bad part, or other work on it.

    It needs no limits: in one training all nodes do the same, so the majority tells what is usual.
    """

    reads = tuple(f"samples/{metric}" for metric in _METRICS)
    formula = (
        "in 5 of 6 parts of window_s: |median of the node - median of the nodes| >= score robust standard "
        "deviations of the nodes, and >= relative_pct of the median; of several GPUs the one that differs "
        "most from its neighbours counts"
    )
    advice = (
        "Compare the named node with another one: other processes, clocks and temperature of its GPUs, link "
        "speed of PCIe and network. Exclude it from the next start if it is a bad part."
    )
    packs = ("distributed",)
    every_s = 60.0
    consecutive = 2

    window_s: float = parameter(300.0, low=30, unit="s")
    """Length of the judged time."""
    score: float = parameter(6.0, above=0)
    """Distance from the other nodes in robust standard deviations."""
    relative_pct: float = parameter(20.0, low=0, unit="%")
    """Difference as a percentage of what is usual."""
    most_pct: float = parameter(10.0, above=0, high=50, unit="%")
    """If more nodes than this differ in a metric, they do other work, and it is not judged."""

    @property
    def lookback(self) -> Lookback:
        """The judged time."""
        return Lookback(seconds=self.window_s)

    def evaluate(self, window: Window) -> Issues:
        """Judge each metric by itself, and report each node once."""
        start = window.end - round(self.window_s * 1e9)
        if window.job.loop is None or start < window.job.loop:
            return window.insufficient("patience_not_reached", "training has just begun")
        readings = {}
        nodes: set[str] = set()
        for metric in _METRICS:
            by_node = defaultdict(list)
            for (node, _), one in window.series(metric, since=start).items():
                by_node[node].append((one.time, one.value))
            readings[metric] = by_node
            nodes |= by_node.keys()
        if len(nodes) < FEWEST:
            text = f"{len(nodes)} nodes; a majority takes {FEWEST}"
            return window.insufficient("no_match", text, have=len(nodes), need=FEWEST)
        window.judged(len(nodes))
        found = outlier_nodes(readings, start, window.end, score=self.score, relative=self.relative_pct / 100)
        found = [one for one in found if abs(one.value - one.usual) >= _LEAST.get(one.metric, 0.0)]
        allowed = max(1, round(self.most_pct / 100 * len(nodes)))
        for metric in {one.metric for one in found}:
            if len({one.node for one in found if one.metric == metric}) > allowed:
                found = [one for one in found if one.metric != metric]
        for node in dict.fromkeys(one.node for one in found):
            mine = [one for one in found if one.node == node]
            parts = ", ".join(
                f"{one.metric} {one.value:.4g} instead of {one.usual:.4g}" for one in mine[:_SHOWN]
            )
            yield self.issue(
                f"{node} differs from the other {len(nodes) - 1} nodes: {parts}",
                severity="warning",
                node=node,
                time_start=start,
                time_end=window.end,
                evidence={
                    "metrics": [one.metric for one in mine],
                    "value": mine[0].value,
                    "usual": mine[0].usual,
                    "score": mine[0].score,
                    "nodes": len(nodes),
                },
            )
