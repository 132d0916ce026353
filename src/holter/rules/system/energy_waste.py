"""EnergyWaste: idle GPUs use much of the energy."""

from __future__ import annotations

import numpy as np

from holter.analysis.machine.snapshots import matrix
from holter.rules import Issues, Rule, Window, parameter, rule_class
from holter.rules.engine.levels import grade
from holter.rules.engine.lookback import place_of
from holter.rules.patterns.gpu_owners import READS, ours, owners

_GAP_READINGS = 5
"""A reading covers the time since the previous one, up to this number of intervals."""
_KWH = 3.6e6


@rule_class
class EnergyWaste(Rule):
    """The GPUs of the job use a large share of their energy while they idle."""

    reads = ("samples/gpu.power", "samples/gpu.util", READS)
    severity = "info"
    formula = (
        "energy used while utilization < idle_pct / all energy since the start >= info, warning, or critical"
    )
    advice = "Shorten what the GPUs wait for: start-up, data loading, evaluation on the CPU, and checkpoints."
    packs = ("performance",)
    every_s = 60.0
    consecutive = 2

    idle_pct: float = parameter(5.0, low=0, high=100, unit="%")
    """A GPU below this utilization is idle."""
    info: float | None = parameter(10.0, low=0, high=100, unit="%")
    """Share of the energy from which the rule reports a note."""
    warning: float | None = parameter(20.0, low=0, high=100, unit="%")
    """Share of the energy that is a warning."""
    critical: float | None = parameter(50.0, low=0, high=100, unit="%")
    """Share of the energy that is critical."""
    min_s: float = parameter(1800.0, low=0, unit="s")
    """Shorter jobs are not judged, because their start-up weighs too much."""

    def evaluate(self, window: Window) -> Issues:
        """Add the new readings, and judge all GPUs that worked at any time together."""
        power, util = window.series("gpu.power", new=True), window.series("gpu.util", new=True)
        kept: dict[str, list[float]] = window.state.setdefault("joules", {})
        most = _GAP_READINGS * window.job.interval_ms / 1e3
        for node, device in sorted(power.keys() & util.keys()):
            # Total energy, idle energy, highest utilization, time of the last reading.
            whole, idle, high, last = kept.get(f"{node}/{device}", [0.0, 0.0, 0.0, 0.0])
            series = power[node, device]
            busy = matrix({(node, device): util[node, device]}, node, series.time)[0]
            known = np.isfinite(busy)
            before = np.concatenate([[last or series.time[0]], series.time[:-1]])
            joules = series.value * np.minimum((series.time - before) / 1e9, most)
            whole += float(joules[known].sum())
            idle += float(joules[known & (busy < self.idle_pct)].sum())
            high = max(high, float(busy[known].max(initial=0.0)))
            kept[f"{node}/{device}"] = [whole, idle, high, float(series.time[-1])]
        yield from self._judge(window, kept)

    def _judge(self, window: Window, kept: dict[str, list[float]]) -> Issues:
        mine = ours(map(place_of, kept), owners(window))
        # UnusedGPU judges a GPU that never worked.
        used = [kept[f"{node}/{device}"] for node, device in mine if kept[f"{node}/{device}"][2] >= 5.0]
        whole, idle = sum(k[0] for k in used), sum(k[1] for k in used)
        if whole <= 0:
            return window.insufficient("no_input", "no power of a GPU that works")
        seconds = (window.end - window.job.start) / 1e9
        if seconds < self.min_s:
            return window.insufficient("run_too_short", "the job is too short", seconds, self.min_s)
        window.judged(len(used))
        share = 100.0 * idle / whole
        severity = grade(share, info=self.info, warning=self.warning, critical=self.critical)
        if severity is not None:
            yield self.issue(
                f"{share:.0f} % of the GPUs' energy ({idle / _KWH:.2f} kWh) was used while they idled",
                severity=severity,
                time_start=window.job.start,
                time_end=window.end,
                evidence={"idle_pct_of_energy": share, "idle_kwh": idle / _KWH, "all_kwh": whole / _KWH},
            )
