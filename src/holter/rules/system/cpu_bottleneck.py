"""CPUBottleneck: a GPU idles while the CPU is saturated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.machine.snapshots import any_above, busiest, matrix
from holter.rules import Issues, Window, parameter, rule_class
from holter.rules.patterns.gpu_owners import READS
from holter.rules.patterns.patience import start_of
from holter.rules.patterns.snapshot_rule import SnapshotRule

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@rule_class
class CPUBottleneck(SnapshotRule):
    """A GPU idles while the CPU is saturated, in too many snapshots of a node."""

    reads = ("samples/gpu.util", "samples/cpu.core.util", "samples/proc.count", READS, "steps")
    formula = "share of snapshots with a GPU < gpu_threshold and the CPU > cpu_threshold is above threshold"
    advice = (
        "Take work off the CPU: decode and augment on the GPU or before training. Check CPU quotas and "
        "thread counts."
    )

    cpu_threshold: float = parameter(90.0, low=0, high=100, unit="%")
    """A CPU above this utilization is saturated."""
    cpu_stat: str = parameter("busiest_k", classic="any_core", choices=("any_core", "mean", "busiest_k"))
    """What is compared: any core, the mean of all, or the busiest k, one per trainer and loader worker."""
    cpu_mean: float | None = parameter(85.0, classic=None, low=0, high=100, unit="%")
    """The CPU is also saturated when the mean of all cores is at least this."""

    def evaluate(self, window: Window) -> Issues:
        """Judge each node by itself."""
        if (since := start_of(window, self.skip_before_first_step)) is None:
            return
        cores = window.series("cpu.core.util", since=since)

        def reason(node: str, at: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
            busy = matrix(cores, node, at)
            return self._saturated(window, node, busy), (busy > self.cpu_threshold).sum(axis=0)

        nodes = {node for node, _ in cores}
        yield from self.judge_nodes(window, since, nodes, reason, "the CPU was saturated")
        if not window.points and window.lack is None:
            window.insufficient("no_input", "gpu.util and cpu.core.util of the same node are needed")

    def _saturated(self, window: Window, node: str, cores: NDArray[np.float64]) -> NDArray[np.bool_]:
        mean = busiest(cores, len(cores))
        if self.cpu_stat == "any_core":
            high = any_above(cores, self.cpu_threshold)
        elif self.cpu_stat == "mean":
            high = mean > self.cpu_threshold
        else:
            counts = window.series("proc.count")
            known = [counts[place] for place in ((node, "trainer"), (node, "worker")) if place in counts]
            # On a large machine, a few busy cores mean nothing without the number of processes.
            used = busiest(cores, int(sum(series.value[-1] for series in known))) if known else mean
            high = used > self.cpu_threshold
        return high if self.cpu_mean is None else high | (mean >= self.cpu_mean)
