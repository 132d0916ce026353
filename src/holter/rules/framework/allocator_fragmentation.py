"""AllocatorFragmentation: GPU memory is fragmented: much of the reserved memory is not allocated."""

from __future__ import annotations

import numpy as np

from holter.rules import Issues, Lookback, Rule, Severity, Window, parameter, rule_class
from holter.rules.engine.levels import grade, worst
from holter.rules.patterns.ranks import Scalars, by_rank, last


@rule_class
class AllocatorFragmentation(Rule):
    """PyTorch's allocator reserves most of a GPU but cannot use much of it, or must free its cache."""

    reads = (
        "scalars/cuda.reserved_peak",
        "scalars/cuda.allocated_peak",
        "scalars/cuda.inactive_split",
        "scalars/cuda.total",
        "scalars/cuda.alloc_retries",
        "scalars/cuda.ooms",
    )
    formula = (
        "at the peaks of the last `window` steps: (reserved - allocated) / reserved >= waste_pct and "
        "reserved >= full_pct of the device: warning; reserved >= critical_pct: critical; or allocator "
        "retries per 100 steps >= retries_warning or retries_critical"
    )
    advice = (
        "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, pad inputs to a few fixed shapes, and call "
        "torch.cuda.empty_cache() between phases."
    )
    packs = ("performance",)
    every_s = 30.0
    consecutive = 2
    lookback = Lookback(seconds=1800.0)

    waste_pct: float = parameter(30.0, low=0, high=100, unit="%")
    """Share of the reserved memory that was not allocated even at the peak."""
    full_pct: float = parameter(70.0, low=0, high=100, unit="%")
    """Reserved share of the device from which waste is a warning; below it, waste does no harm."""
    critical_pct: float = parameter(90.0, low=0, high=100, unit="%")
    """Reserved share of the device from which waste is critical."""
    window: int = parameter(50, low=2, unit="steps")
    """Number of recent steps of each rank that are judged."""
    retries_warning: float | None = parameter(1.0, above=0, unit="retries per 100 steps")
    """Allocator retries that are a warning; each frees the whole cache and stops the device."""
    retries_critical: float | None = parameter(10.0, above=0, unit="retries per 100 steps")
    """Allocator retries that are critical."""

    def evaluate(self, window: Window) -> Issues:
        """Judge each rank by itself."""
        names = ("reserved_peak", "allocated_peak", "total", "inactive_split", "alloc_retries", "ooms")
        found = {name: by_rank(window.scalars, f"cuda.{name}") for name in names}
        ranks = sorted(found["reserved_peak"].keys() & found["allocated_peak"].keys() & found["total"].keys())
        if not ranks:
            return window.insufficient("no_input", "no figures of PyTorch's CUDA allocator")
        for rank in ranks:
            here = {name: last(series[rank], self.window) for name, series in found.items() if rank in series}
            if (have := len(here["reserved_peak"].value)) < self.window:
                window.too_few("too few steps", have, self.window)
                continue
            window.judged(self.window)
            yield from self._judge(rank, here)

    def _judge(self, rank: int, here: dict[str, Scalars]) -> Issues:
        reserved, total = float(here["reserved_peak"].value.max()), float(here["total"].value[-1])
        allocated = float(here["allocated_peak"].value.max())
        waste, full = 100.0 * (reserved - allocated) / max(reserved, 1.0), 100.0 * reserved / max(total, 1.0)
        by_waste = grade(full, warning=self.full_pct, critical=self.critical_pct)
        by_waste = by_waste if waste >= self.waste_pct else None
        retries, rate, ooms = _new(here, "alloc_retries"), 0.0, _new(here, "ooms")
        by_retries: Severity | None = None
        if retries > 0:
            steps = here["alloc_retries"].step
            rate = 100.0 * retries / max(1, int(steps[-1] - steps[0]))
            by_retries = grade(rate, info=0.0, warning=self.retries_warning, critical=self.retries_critical)
        by_oom: Severity | None = "critical" if ooms > 0 and waste >= self.waste_pct else None
        severity = worst(by_waste, by_retries, by_oom)
        if severity is None:
            return
        if by_waste == severity or by_oom == severity:
            code, text = "waste", f"{waste:.0f} % of the GPU memory reserved by rank {rank} is fragmented"
        else:
            code = "retries"
            text = f"rank {rank} had to free its GPU memory cache {rate:.1f} times per 100 steps"
        series = here["reserved_peak"]
        split = here.get("inactive_split")
        yield self.issue(
            text,
            severity=severity,
            code=code,
            node=series.node,
            rank=rank,
            **series.span,
            evidence={
                "waste_pct": waste,
                "reserved_pct": full,
                "reserved_bytes": reserved,
                "allocated_peak_bytes": allocated,
                "inactive_split_bytes": None if split is None else float(np.median(split.value)),
                "retries_per_100_steps": rate,
                "out_of_memory": ooms,
            },
        )


def _new(here: dict[str, Scalars], name: str) -> float:
    """Return by how much a counter rose during the steps."""
    return float(here[name].value[-1] - here[name].value[0]) if name in here else 0.0
