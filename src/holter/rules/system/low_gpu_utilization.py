"""LowGPUUtilization: GPU utilization is low or fluctuates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.intervals import inside
from holter.analysis.steps.spread import quantile
from holter.rules import Issues, Lookback, Place, Rule, Series, Table, Window, parameter, rule_class
from holter.rules.engine.lookback import place_of
from holter.rules.engine.quantile_sketch import box, remember
from holter.rules.patterns.gpu_owners import READS, ours, owners
from holter.rules.patterns.patience import start_of, too_early
from holter.rules.patterns.profiled import covered

if TYPE_CHECKING:
    from numpy.typing import NDArray


@rule_class
class LowGPUUtilization(Rule):
    """A GPU's utilization is low, or it fluctuates, over the last minutes of training."""

    reads = ("samples/gpu.util", "samples/gpu.sm_active", READS, "steps")
    formula = (
        "low: 95th percentile < threshold_p95, or mean < threshold_mean; fluctuating: 95th percentile > "
        "threshold_p95 and 5th percentile < threshold_p5"
    )
    advice = "Find what the GPU waits for: check data loading first, then communication, then small kernels."
    packs = ("default", "essentials", "performance", "sagemaker")

    threshold_p95: float = parameter(50.0, classic=70.0, low=0, high=100, unit="%", aliases=("threshold",))
    """Utilization is low when its 95th percentile is below this."""
    threshold_p5: float = parameter(10.0, low=0, high=100, unit="%")
    """Utilization fluctuates when its 5th percentile is below this while the 95th is high."""
    threshold_mean: float | None = parameter(60.0, classic=None, low=0, high=100, unit="%")
    """Utilization is low when its mean is below this."""
    metric: str = parameter("auto", classic="gpu.util", choices=("auto", "gpu.util", "gpu.sm_active"))
    """Metric that is judged; auto = gpu.sm_active if it is recorded, otherwise gpu.util."""
    sm_threshold_mean: float | None = parameter(30.0, low=0, high=100, unit="%")
    """Replaces threshold_mean when gpu.sm_active is judged."""
    window: int | None = parameter(None, classic=500, above=0, unit="readings", instead_of="window_s")
    """Number of recent readings that are judged."""
    window_s: float | None = parameter(250.0, classic=None, above=0, unit="s")
    """The same as a time."""
    patience: int | None = parameter(None, classic=1000, above=0, unit="readings", instead_of="patience_s")
    """The rule judges a GPU only after more readings than this."""
    patience_s: float | None = parameter(300.0, classic=None, above=0, unit="s")
    """The same as a time, counted from the end of warm-up."""
    skip_before_first_step: bool = parameter(True, classic=False)
    """Ignore readings before the end of warm-up; for p5 also evaluation and checkpoints."""

    @property
    def lookback(self) -> Lookback:
        """The last minutes, or the last readings."""
        return Lookback(seconds=max(self.window_s or 0.0, 250.0), readings=self.window)

    def evaluate(self, window: Window) -> Issues:
        """Judge each GPU by itself."""
        if (since := start_of(window, self.skip_before_first_step)) is None:
            return
        found, new = self._series(window, since), self._series(window, since, new=True)
        if not found:
            wanted = "gpu.util" if self.metric == "auto" else self.metric
            return window.insufficient("no_input", f"no reading of {wanted}")
        now: dict[str, dict[str, object]] = {}
        seen = self._remember(window, new, now)
        for node, device in ours(found, owners(window)):
            metric, series = found[node, device]
            count, seconds = seen.get((node, device), 0), (int(series.time[-1]) - since) / 1e9
            if too_early(window, device, count, self.patience, seconds, self.patience_s):
                continue
            if self.window is None and self.window_s is not None:
                cut = int(np.searchsorted(series.time, window.end - round(self.window_s * 1e9), side="right"))
                series = Series(series.time[cut:], series.value[cut:])
            if not len(series.value) or series.value.max() == 0:
                window.insufficient("no_match", f"{device} was not used at all")
                continue
            window.judged(len(series.value))
            yield from self._judge(window, (node, device), metric, series, now)

    def _series(self, window: Window, since: int, *, new: bool = False) -> dict[Place, tuple[str, Series]]:
        """Return the judged readings of each GPU, and the name of their metric."""
        found: dict[Place, tuple[str, Series]] = {}
        for metric in ("gpu.util", "gpu.sm_active"):
            if self.metric in ("auto", metric):
                every = window.series(metric, since=since, new=new)
                found |= {place: (metric, series) for place, series in every.items()}
        return found

    def _remember(
        self, window: Window, new: dict[Place, tuple[str, Series]], now: dict[str, dict[str, object]]
    ) -> dict[Place, int]:
        """Add the new readings, hand over box plots, and return the number of readings of each GPU."""
        sketches, last = remember(window, {place: series for place, (_, series) in new.items()})
        window.hand_over(
            lambda: {
                "gpus": {
                    key: {**box(s), "last_timestamp": last[key], **now.get(key, {})}
                    for key, s in sorted(sketches.items())
                }
            }
        )
        return {place_of(key): sketch.get("n", 0) for key, sketch in sketches.items()}

    def _judge(
        self, window: Window, place: Place, metric: str, series: Series, now: dict[str, dict[str, object]]
    ) -> Issues:
        node, device = place
        threshold_mean = self.sm_threshold_mean if metric == "gpu.sm_active" else self.threshold_mean
        mean = float(series.value.mean())
        high = quantile(series.value, 0.95)
        calm = _training(series, window.steps) if self.skip_before_first_step else series.value
        low = quantile(calm, 0.05) if len(calm) else None
        numbers = {"mean_pct": mean, "p95_pct": high, "p5_pct": low, "readings": len(series.value)}
        extremes = {"gpu_max": float(series.value.max()), "gpu_95": high, "gpu_5": low}
        now[f"{node}/{device}"] = {"metric": metric, **extremes}
        where = {"node": node, "device": device, **series.span}
        if high < self.threshold_p95 or (threshold_mean is not None and mean < threshold_mean):
            if high < self.threshold_p95:
                what, limit = f"its 95th percentile is {high:.0f} %", self.threshold_p95
            else:
                what, limit = f"its mean is {mean:.0f} %", threshold_mean or 0.0
            numbers["threshold_pct"] = limit
            yield self.issue(
                f"{device} is underused: {what}, below {limit:g} %", code="low", evidence=numbers, **where
            )
        elif low is not None and high > self.threshold_p95 and low < self.threshold_p5:
            text = f"{device} utilization fluctuates: 95th percentile {high:.0f} %, 5th {low:.0f} %"
            yield self.issue(text, code="fluctuating", evidence=numbers, **where)


def _training(series: Series, steps: Table) -> NDArray[np.float64]:
    """Return the readings outside steps with an evaluation or a checkpoint."""
    pause = steps.where((steps["eval"] + steps["checkpoint"]) * 10 > steps["duration"])
    return series.value[~inside(covered(pause), series.time)]
