"""The base of rules that count the snapshots of a node in which a GPU idles for a reason."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from holter.analysis.machine.snapshots import any_below, matrix, moments, told, totals
from holter.rules import Issues, Lookback, Rule, Window, parameter
from holter.rules.patterns.gpu_owners import ours, owners
from holter.rules.patterns.patience import too_early

if TYPE_CHECKING:
    from collections.abc import Callable, Set

    import numpy as np
    from numpy.typing import NDArray

    Reason = Callable[[str, NDArray[np.int64]], tuple[NDArray[np.bool_], NDArray[np.int64]]]
    """Node and times of snapshots → which of them show the reason, and the cores concerned in each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRule(Rule):
    """A GPU idles while its node shows the reason, in too many snapshots of a node."""

    packs = ("default", "performance", "sagemaker")
    every_s = 30.0

    threshold: float = parameter(20.0, classic=50.0, low=0, high=100, unit="%")
    """Share of snapshots that may show the bottleneck."""
    gpu_threshold: float = parameter(30.0, classic=10.0, low=0, high=100, unit="%")
    """A GPU below this utilization idles."""
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

    def judge_nodes(
        self, window: Window, since: int, nodes: Set[str], reason: Reason, text: str, code: str = ""
    ) -> Issues:
        """Judge each of the nodes by the snapshots after `since`, and publish the counts."""
        gpus = window.series("gpu.util", since=since)
        gpus = {place: gpus[place] for place in ours(gpus, owners(window))}
        known = window.state.setdefault("snapshots", {})
        details = {}
        for node in sorted({node for node, _ in gpus} & nodes):
            at = moments(gpus, node)
            used = matrix(gpus, node, at)
            low = any_below(used, self.gpu_threshold)
            shown, cores = reason(node, at)
            both = low & shown
            seen = totals(both, low, known.get(node, ()) if self.window_s is None else ())
            if self.window_s is None:
                known[node] = list(seen)
            bad, count, lows = seen
            idle = (used < self.gpu_threshold).sum(axis=0)
            details[node] = partial(told, at, both, seen, GPUs=idle, CPUs=cores)
            seconds = (int(at[-1]) - since) / 1e9
            if too_early(window, node, count, self.patience, seconds, self.patience_s):
                continue
            window.judged(count)
            share = 100.0 * bad / count
            evidence = {"bottleneck_pct": share, "bottlenecks": bad, "snapshots": count, "low_gpu": lows}
            if share > self.threshold:
                yield self.issue(
                    f"a GPU was below {self.gpu_threshold:g} % while {text} in {share:.0f} % of snapshots",
                    code=code,
                    node=node,
                    time_start=int(at[0]),
                    time_end=int(at[-1]),
                    evidence=evidence,
                )
        window.hand_over(lambda: {node: one() for node, one in details.items()})
