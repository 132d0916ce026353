"""UnusedGPU: a GPU is visible to the job but not used."""

from __future__ import annotations

from holter.rules import Issues, Place, Rule, Window, parameter, rule_class
from holter.rules.engine.lookback import place_of
from holter.rules.patterns.gpu_owners import READS, owners

_BUSY_PCT = 5.0
_MIB = 2**20
_MANY = 0.25
"""Critical when more than this share of the devices is unused."""


@rule_class
class UnusedGPU(Rule):
    """A GPU that the job may use never works and holds almost no memory, while another GPU works."""

    reads = ("samples/gpu.util", "samples/gpu.mem.used", READS, "scalars/cuda.total", "steps")
    formula = (
        "after_s after the first step: highest utilization is 0 and memory < memory_mib, while another GPU "
        "of the job works; or two trainers share a GPU while another is free"
    )
    advice = "Start one process for each GPU, or give the job fewer GPUs with CUDA_VISIBLE_DEVICES."
    packs = ("performance", "distributed")
    every_s = 60.0
    consecutive = 2

    after_s: float = parameter(600.0, low=0, unit="s")
    """Time after the first step in which a GPU may be unused."""
    memory_mib: float = parameter(500.0, above=0, unit="MiB")
    """A GPU that holds less memory holds only a driver context."""

    def evaluate(self, window: Window) -> Issues:
        """Keep the highest readings of each GPU, and judge each node after `after_s`."""
        known = owners(window)
        first = window.job.first_step
        highest: dict[str, list[float]] = window.state.setdefault("highest", {})
        for slot, metric in enumerate(("gpu.util", "gpu.mem.used")):
            for (node, device), series in window.series(metric, since=first, new=True).items():
                kept = highest.setdefault(f"{node}/{device}", [-1.0, -1.0])
                kept[slot] = max(kept[slot], float(series.value.max()))
        if bool((window.new("scalars")["name"] == "cuda.total").any()):
            window.state["cuda"] = True
        if not highest:
            return window.insufficient("no_input", "no reading of a GPU")
        if not any(known.values()) and not window.state.get("cuda"):
            return window.insufficient("no_input", "it is unknown whether this job uses a GPU")
        nodes: dict[str, dict[str, list[float]]] = {}
        for (node, device), kept in sorted((place_of(key), kept) for key, kept in highest.items()):
            nodes.setdefault(node, {})[device] = kept
        for node, here in nodes.items():
            yield from self._judge(window, node, here, known)

    def _judge(
        self, window: Window, node: str, here: dict[str, list[float]], known: dict[Place, int]
    ) -> Issues:
        first = window.job.first_step
        idle = [d for d, (util, memory) in here.items() if util == 0 and 0 <= memory < self.memory_mib * _MIB]
        idle = sorted(d for d in idle if not known.get((node, d)))
        works = [d for d, (util, _) in here.items() if util >= _BUSY_PCT and known.get((node, d), 1)]
        window.judged(len(here))
        shared = sorted(d for d in here if known.get((node, d), 0) > 1)
        evidence = {"unused": idle, "used": sorted(works), "devices": len(here)}
        if idle and shared:
            yield self.issue(
                f"{known[node, shared[0]]} processes share {shared[0]} while {idle[0]} is free",
                code="two_ranks_one_device",
                node=node,
                device=shared[0],
                evidence=evidence,
                advice="Give each process a GPU of its own: choose it by LOCAL_RANK.",
            )
        elif first is None or window.end < first + round(self.after_s * 1e9):
            window.insufficient("patience_not_reached", "training has not run long enough")
        elif idle and works:
            yield self.issue(
                f"{len(idle)} of {len(here)} GPUs are not used: {', '.join(idle[:8])}",
                severity="critical" if len(idle) > _MANY * len(here) else "warning",
                code="world_smaller_than_devices",
                node=node,
                time_start=first,
                time_end=window.end,
                evidence=evidence,
            )
