"""GPUMemoryIncrease: GPU memory use grows suddenly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.steps.spread import median
from holter.rules import Issues, Lookback, Rule, Series, State, Window, parameter, rule_class
from holter.rules.engine.quantile_sketch import box, quantile, remember
from holter.rules.patterns.gpu_owners import READS, ours, owners

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WINDOWS = 3
"""Number of windows in a row in which memory must stay above the limit."""


@rule_class
class GPUMemoryIncrease(Rule):
    """A GPU uses clearly more memory than after warm-up. GPUMemoryLeak finds slow growth."""

    reads = ("samples/gpu.mem.used_pct", "samples/gpu.mem.busy", READS, "steps")
    formula = (
        "modern: the medians of the last three windows are all above the median of the first window after "
        "`patience` by more than increase; classic: mean of the last `window` readings - the same mean one "
        "reading earlier > increase"
    )
    advice = "Find what is kept from step to step. Use a smaller micro-batch or checkpoint activations."
    packs = ("sagemaker",)

    increase: float = parameter(5.0, low=0, high=100, unit="percentage points")
    """Growth above which the rule fires."""
    memory: str = parameter("used", classic="busy", choices=("used", "busy"))
    """Which reading of GPU memory is compared: the share in use, or how busy its controller is."""
    patience: int | None = parameter(None, classic=1000, above=0, unit="readings", instead_of="patience_s")
    """The rule judges a GPU only after more readings than this."""
    patience_s: float | None = parameter(600.0, classic=None, above=0, unit="s")
    """The same as a time, counted from the end of warm-up."""
    window: int | None = parameter(None, classic=10, low=2, unit="readings", instead_of="window_s")
    """Number of readings that the classic formula averages."""
    window_s: float | None = parameter(60.0, classic=None, above=0, unit="s")
    """Length of the windows whose medians the modern formula compares."""

    @property
    def lookback(self) -> Lookback:
        """Three windows; the classic formula keeps its readings in the state."""
        return Lookback(seconds=_WINDOWS * self.window_s if self.window_s else None)

    def evaluate(self, window: Window) -> Issues:
        """Judge each GPU by itself."""
        metric = "gpu.mem.busy" if self.memory == "busy" else "gpu.mem.used_pct"
        series = window.series(metric, new=self.window is not None)
        places = ours(series, owners(window))
        if not places:
            return window.insufficient("no_input", f"no new reading of {metric}")
        self._remember(window, metric)
        for node, device in places:
            kept = window.state.setdefault("devices", {}).setdefault(f"{node}/{device}", {})
            if self.window is not None:
                found = self._raised(window, kept, series[node, device], self.window)
            else:
                found = self._grown(window, kept, series[node, device])
            if found is not None:
                grown, count, evidence = found
                window.state["grown"][f"{node}/{device}"] = grown
                yield self.issue(
                    f"{device} uses {grown:.0f} percentage points more of its memory than before",
                    node=node,
                    device=device,
                    count=count,
                    **series[node, device].span,
                    evidence={"increase_points": grown, "threshold_points": self.increase, **evidence},
                )

    def _remember(self, window: Window, metric: str) -> None:
        """Add the new readings to the sketches, and hand over box plots of all."""
        sketches, last = remember(window, window.series(metric, new=True))
        grown = window.state.setdefault("grown", {})

        def details(key: str) -> dict[str, object]:
            sketch = sketches[key]
            of_all = {**box(sketch), "p05": quantile(sketch, 0.05), "gpu_max": sketch.get("max")}
            return {**of_all, "increase": grown.get(key), "last_timestamp": last[key]}

        window.hand_over(lambda: {"gpus": {key: details(key) for key in sorted(sketches)}})

    def _raised(
        self, window: Window, kept: State, new: Series, width: int
    ) -> tuple[float, int, dict[str, float]] | None:
        before, tail = int(kept.get("seen", 0)), np.array(kept.get("tail", []), dtype=np.float64)
        values = np.concatenate([tail, new.value])
        kept["seen"], kept["tail"] = before + len(new.value), values[-width - 1 :].tolist()
        patience = self.patience or 0
        if kept["seen"] <= patience:
            window.insufficient("patience_not_reached", "too few readings of memory", kept["seen"], patience)
            return None
        window.judged(len(new.value))
        ends = np.arange(len(tail), len(values))
        numbers = before + 1 + np.arange(len(new.value))
        ends = ends[(numbers > patience) & (ends >= width)]
        total = np.concatenate([[0.0], np.cumsum(values)])
        now = (total[ends + 1] - total[ends + 1 - width]) / width
        # The published formula ignores the last two readings of the earlier mean.
        earlier = (total[ends - 1] - total[ends - width]) / (width - 1)
        rise = now - earlier
        # Rounding changes sums over many readings; a value at the limit is not an excess.
        above = rise > self.increase + 1e-9
        return (float(rise.max()), int(above.sum()), {}) if above.any() else None

    def _grown(
        self, window: Window, kept: State, series: Series
    ) -> tuple[float, int, dict[str, float]] | None:
        loop = window.job.loop
        width = round((self.window_s or 60.0) * 1e9)
        if loop is None:
            window.insufficient("patience_not_reached", "warm-up has not ended")
            return None
        first = loop + round((self.patience_s or 0.0) * 1e9)
        if "reference" not in kept:
            if window.end >= first + width:
                early = series.value[(series.time > first) & (series.time <= first + width)]
                early = early if len(early) else series.value
                kept["reference"] = median(early)
            else:
                have, need = (window.end - loop) / 1e9, (first + width - loop) / 1e9
                window.insufficient("patience_not_reached", "the first window has not ended", have, need)
                return None
        medians: list[float] = []
        for back in range(_WINDOWS):
            end = window.end - back * width
            part: NDArray[np.float64] = series.value[(series.time > end - width) & (series.time <= end)]
            if end - width < first or not len(part):
                text = "too few windows after the patience"
                window.insufficient("patience_not_reached", text, have=back, need=_WINDOWS)
                return None
            medians.append(median(part))
        window.judged(len(series.value))
        grown = min(medians) - kept["reference"]
        if grown <= self.increase:
            return None
        evidence = {"reference_pct": kept["reference"], "now_pct": medians[0]}
        return grown, 1, evidence
