"""GPUMemoryLeak: allocated GPU memory grows steadily."""

from __future__ import annotations

import numpy as np

from holter.rules import Issues, Rule, State, Window, parameter, rule_class
from holter.rules.engine.trend import rising
from holter.rules.patterns.ranks import Scalars, by_rank

_WIDTH = 10
_GROWTH = 10
_LEVELS = 4
"""Group sizes of the minima, in steps: several sizes find fast and slow leaks in bounded memory."""
_KEEP = 81
_LEAST = 8
_MIB = 2**20


@rule_class
class GPUMemoryLeak(Rule):
    """The memory that a rank has allocated on its GPU at the end of steps rises steadily."""

    reads = ("scalars/cuda.allocated", "scalars/cuda.total")
    formula = (
        "over the minima of the allocated bytes in groups of 10 to 10,000 steps: Mann-Kendall z >= min_z, "
        "slope of both halves >= 0.3 x the whole slope, growth >= min_growth_mib and >= 0.5 % of the device"
    )
    advice = (
        "Find what keeps tensors of each step: losses collected with their graph (use .item() or "
        ".detach()), or lists of outputs."
    )
    packs = ("performance",)
    every_s = 60.0
    consecutive = 2

    min_steps: int = parameter(400, low=1, unit="steps")
    """Minimum number of steps; fewer are not judged."""
    min_z: float = parameter(4.0, above=0)
    """Confidence of the trend, as a Mann-Kendall z score."""
    min_growth_mib: float = parameter(64.0, low=0, unit="MiB")
    """Smaller growth is not a leak."""
    skip_steps: int = parameter(20, low=0, unit="steps")
    """First steps that are ignored, because the optimizer allocates its state there."""

    def evaluate(self, window: Window) -> Issues:
        """Add the new steps, and judge each rank at each time scale."""
        allocated, totals = (
            by_rank(window.new("scalars"), f"cuda.{name}") for name in ("allocated", "total")
        )
        ranks = window.state.setdefault("ranks", {})
        for rank, series in allocated.items():
            kept = ranks.setdefault(str(rank), {"levels": [{} for _ in range(_LEVELS)], "node": series.node})
            self._take(kept, series)
        for rank, series in totals.items():
            ranks.setdefault(str(rank), {"levels": [{} for _ in range(_LEVELS)], "node": series.node})
            ranks[str(rank)]["total"] = float(series.value[-1])
        if not ranks:
            return window.insufficient("no_input", "no figures of PyTorch's CUDA allocator")
        for name, kept in sorted(ranks.items(), key=lambda item: int(item[0])):
            yield from self._judge(window, int(name), kept)

    def _take(self, kept: State, series: Scalars) -> None:
        late = series.step >= self.skip_steps
        steps, values = series.step[late], series.value[late]
        for level, minima in enumerate(kept["levels"]):
            numbers = steps // (_WIDTH * _GROWTH**level)
            for number in np.unique(numbers).tolist():
                least = float(values[numbers == number].min())
                minima[str(number)] = min(least, minima.get(str(number), least))
            for number in sorted(minima, key=int)[:-_KEEP]:
                del minima[number]

    def _judge(self, window: Window, rank: int, kept: State) -> Issues:
        total = kept.get("total")
        for level, minima in enumerate(kept["levels"]):
            width = _WIDTH * _GROWTH**level
            # The last group is incomplete: its minimum may still fall.
            numbers = sorted(minima, key=int)[:-1]
            need = max(_LEAST, self.min_steps // _WIDTH)
            if len(numbers) < need:
                if level == 0:
                    text, have = f"too few steps of rank {rank}", len(numbers) * width
                    window.too_few(text, have, self.min_steps)
                continue
            window.judged(len(numbers))
            values = np.array([minima[number] for number in numbers])
            slope = rising(values, min_z=self.min_z)
            growth = 0.0 if slope is None else slope * len(values)
            if slope is None or growth < max(self.min_growth_mib * _MIB, 0.005 * (total or 0.0)):
                continue
            first, end = int(numbers[0]) * width, (int(numbers[-1]) + 1) * width
            left = None if total is None else max(0.0, total - float(values[-1])) / slope * width
            soon = left is not None and left < 2 * (end - first)
            yield self.issue(
                f"rank {rank} allocates {slope / width / _MIB:.2f} MiB more GPU memory each step"
                + (f"; full in {left:.0f} steps" if soon else ""),
                severity="critical" if soon else "warning",
                node=kept["node"],
                rank=rank,
                step_start=first,
                step_end=end - 1,
                evidence={
                    "bytes_per_step": slope / width,
                    "growth_bytes": growth,
                    "allocated_bytes": float(values[-1]),
                    "device_bytes": total,
                    "steps_to_full": left,
                },
            )
            return
