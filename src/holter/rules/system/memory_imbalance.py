"""MemoryImbalance: ranks use very different amounts of GPU memory."""

from __future__ import annotations

import numpy as np

from holter.rules import Issues, Lookback, Rule, Severity, Window, parameter, rule_class
from holter.rules.patterns.ranks import by_rank, last

_STEPS = 50
_MIN_STEPS = 10


@rule_class
class MemoryImbalance(Rule):
    """One rank's GPU is much fuller than most others, which limits the batch of all ranks."""

    reads = ("scalars/cuda.allocated_peak", "scalars/cuda.total")
    formula = (
        "(fullest rank - median rank) of the allocated peaks / device >= info: note; >= warning and the "
        "fullest rank >= full_warning: warning; >= critical and >= full_critical: critical"
    )
    advice = (
        "Find what the named rank holds in addition, for example logging, gathered checkpoints or "
        "evaluation, and shard it."
    )
    packs = ("distributed",)
    every_s = 60.0
    consecutive = 2
    lookback = Lookback(seconds=1800.0)

    info: float = parameter(10.0, low=0, high=100, unit="%")
    """Difference, as a share of the device, from which the rule reports a note."""
    warning: float = parameter(20.0, low=0, high=100, unit="%")
    """Difference that is a warning, if the fullest rank exceeds full_warning."""
    critical: float = parameter(30.0, low=0, high=100, unit="%")
    """Difference that is critical, if the fullest rank exceeds full_critical."""
    full_warning: float = parameter(50.0, low=0, high=100, unit="%")
    """How full the fullest rank must be for a warning: imbalance of half-empty devices costs nothing."""
    full_critical: float = parameter(85.0, low=0, high=100, unit="%")
    """How full the fullest rank must be for a critical finding."""

    def evaluate(self, window: Window) -> Issues:
        """Compare the ranks whose devices have the same memory size."""
        peaks, totals = (by_rank(window.scalars, f"cuda.{name}") for name in ("allocated_peak", "total"))
        groups: dict[float, dict[int, float]] = {}
        for rank in sorted(peaks.keys() & totals.keys()):
            total, recent = float(totals[rank].value[-1]), last(peaks[rank], _STEPS)
            if total > 0 and len(recent.value) >= _MIN_STEPS:
                groups.setdefault(total, {})[rank] = float(recent.value.max()) / total * 100.0
        if not peaks:
            return window.insufficient("no_input", "no figures of PyTorch's CUDA allocator")
        for total, full in sorted(groups.items()):
            if len(full) < 2:
                continue
            window.judged(len(full))
            fullest = max(full, key=lambda r: (full[r], -r))
            skew = full[fullest] - float(np.median(list(full.values())))
            severity = self._severity(skew, full[fullest])
            if severity is not None:
                yield self.issue(
                    f"rank {fullest} fills {full[fullest]:.0f} % of its GPU, {skew:.0f} points above "
                    "the median rank",
                    severity=severity,
                    code=f"of_{total / 2**30:.0f}_gib",
                    evidence={
                        "rank": fullest,
                        "skew_points": skew,
                        "fullest_pct": full[fullest],
                        "peak_pct": {str(rank): share for rank, share in list(full.items())[:64]},
                    },
                )
        if not window.points:
            window.insufficient("no_match", "fewer than two ranks with GPUs of the same size")

    def _severity(self, skew: float, fullest: float) -> Severity | None:
        if skew >= self.critical and fullest >= self.full_critical:
            return "critical"
        if skew >= self.warning and fullest >= self.full_warning:
            return "warning"
        return "info" if skew >= self.info else None
