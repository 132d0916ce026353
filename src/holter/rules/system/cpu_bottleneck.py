"""CPUBottleneck: a GPU idles while the CPU is saturated."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from holter.analysis.machine.snapshots import any_above, any_below, busiest, matrix, moments, told, totals
from holter.rules import Issues, Lookback, Rule, Window, parameter
from holter.rules.patterns.gpu_owners import READS, ours, owners

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class CPUBottleneck(Rule):
    """A GPU idles while the CPU is saturated, in too many snapshots of a node."""

    reads = ("samples/gpu.util", "samples/cpu.core.util", "samples/proc.count", READS, "steps")
    formula = "share of snapshots with a GPU < gpu_threshold and the CPU > cpu_threshold is above threshold"
    advice = (
        "Take work off the CPU: decode and augment on the GPU or before training. Check CPU quotas and "
        "thread counts."
    )
    packs = ("default", "performance", "sagemaker")
    every_s = 30.0

    threshold: float = parameter(20.0, classic=50.0, low=0, high=100, unit="%")
    """Share of snapshots that may show the bottleneck."""
    gpu_threshold: float = parameter(30.0, classic=10.0, low=0, high=100, unit="%")
    """A GPU below this utilization idles."""
    cpu_threshold: float = parameter(90.0, low=0, high=100, unit="%")
    """A CPU above this utilization is saturated."""
    cpu_stat: str = parameter("busiest_k", classic="any_core", choices=("any_core", "mean", "busiest_k"))
    """What is compared: any core, the mean of all, or the busiest k, one per trainer and loader worker."""
    cpu_mean: float | None = parameter(85.0, classic=None, low=0, high=100, unit="%")
    """The CPU is also saturated when the mean of all cores is at least this."""
    patience: int | None = parameter(None, classic=1000, above=0, unit="snapshots", instead_of="patience_s")
    """The rule judges a node only after more snapshots than this."""
    patience_s: float | None = parameter(300.0, classic=None, above=0, unit="s")
    """The same as a time, counted from the end of warm-up."""
    window_s: float | None = parameter(600.0, classic=None, above=0, unit="s")
    """How far back snapshots count; none = the whole job."""
    skip_before_first_step: bool = parameter(True, classic=False)
    """Ignore readings before the end of warm-up."""

    @property
    def lookback(self) -> Lookback:
        """The window, or new rows only."""
        return Lookback(seconds=self.window_s)

    def evaluate(self, window: Window) -> Issues:
        """Judge each node by itself."""
        since = window.job.loop if self.skip_before_first_step else window.job.start - 1
        if since is None:
            return window.insufficient("patience_not_reached", "warm-up has not ended")
        gpus = window.series("gpu.util", since=since)
        gpus = {place: gpus[place] for place in ours(gpus, owners(window))}
        cores = window.series("cpu.core.util", since=since)
        known = window.state.setdefault("snapshots", {})
        details: dict[str, Callable[[], dict[str, Any]]] = {}
        for node in sorted({node for node, _ in gpus} & {node for node, _ in cores}):
            at = moments(gpus, node)
            used, busy = matrix(gpus, node, at), matrix(cores, node, at)
            low = any_below(used, self.gpu_threshold)
            both = low & self._saturated(window, node, busy)
            seen = totals(both, low, known.get(node, ()) if self.window_s is None else ())
            if self.window_s is None:
                known[node] = list(seen)
            bad, count, lows = seen
            window.hand_over(lambda: {node: one() for node, one in details.items()})
            details[node] = partial(
                told,
                at,
                both,
                seen,
                GPUs=(used < self.gpu_threshold).sum(axis=0),
                CPUs=(busy > self.cpu_threshold).sum(axis=0),
            )
            seconds = (int(at[-1]) - since) / 1e9
            have, need = (count, self.patience) if self.patience is not None else (seconds, self.patience_s)
            if need is not None and have <= need:
                window.insufficient(
                    "patience_not_reached", f"{node} was observed for too short a time", have=have, need=need
                )
                continue
            window.judged(count)
            share = 100.0 * bad / count
            if share > self.threshold:
                evidence = {
                    "bottleneck_pct": share,
                    "bottlenecks": bad,
                    "snapshots": count,
                    "low_gpu": lows,
                }
                limit = f"{self.gpu_threshold:g} %"
                text = f"a GPU was below {limit} while the CPU was saturated in {share:.0f} % of snapshots"
                yield self.issue(
                    text, node=node, evidence=evidence, time_start=int(at[0]), time_end=int(at[-1])
                )
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
            of = [counts[node, role].value[-1] for role in ("trainer", "worker") if (node, role) in counts]
            # On a large machine, a few busy cores mean nothing without the number of processes.
            high = busiest(cores, int(sum(of))) > self.cpu_threshold if of else mean > self.cpu_threshold
        return high if self.cpu_mean is None else high | (mean >= self.cpu_mean)
