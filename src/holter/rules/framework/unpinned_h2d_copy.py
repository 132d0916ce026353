"""UnpinnedH2DCopy: copies to the GPU use pageable memory and cannot overlap with computation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.intervals import difference
from holter.analysis.loading import dataloading
from holter.rules import Issues, Lookback, Rule, Severity, Window, parameter, rule_class
from holter.rules.patterns.profiled import HOW, LOOKBACK_S, Profiled, covered, profiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MIB = 2**20
_BLOCKING = re.compile(r"memcpy(?!.*async)", re.IGNORECASE)
_MIN_STEPS = 50


@rule_class
class UnpinnedH2DCopy(Rule):
    """Copies of batches from pageable memory or by blocking calls take time."""

    reads = ("memory_operations", "kernels", "launches", "steps", "events/loader")
    formula = (
        "pageable bytes >= half of the bytes copied to the GPU, and exposed copies >= exposed_pct of the "
        "steps or >= min_mib per step: warning; >= critical_pct: critical; without a trace: pin_memory off "
        "and h2d >= exposed_pct"
    )
    advice = "Set pin_memory=True in the DataLoader, copy with non_blocking=True, and prefetch to the device."
    packs = ("deep_trace",)
    lookback = Lookback(seconds=LOOKBACK_S, steps=200)

    exposed_pct: float = parameter(3.0, above=0, high=100, unit="%")
    """Share of the steps in exposed copies that is a warning."""
    critical_pct: float = parameter(15.0, above=0, high=100, unit="%")
    """Share of the steps in exposed copies that is critical."""
    min_mib: float = parameter(16.0, low=0, unit="MiB per step")
    """This amount of pageable copies is a warning, however long the copies take."""
    min_steps: int = parameter(5, low=1, unit="steps")
    """Minimum number of profiled steps; fewer are not judged."""

    def evaluate(self, window: Window) -> Issues:
        """Judge the copies of each profiled device; without any, the loader's setting and host time."""
        for loader in dataloading.loaders(window.new("events")):
            if isinstance(loader.get("pin_memory"), bool):
                unpinned: dict[str, bool] = window.state.setdefault("unpinned", {})
                key = str(loader["rank"])
                unpinned[key] = unpinned.get(key, True) and not loader["pin_memory"]
        if not window.kernels.rows:
            yield from self._by_loader(window)
            return
        for one in profiled(window, self.min_steps):
            yield from self._copies(window, one)

    def _copies(self, window: Window, one: Profiled) -> Issues:
        rows = one.copies.where((one.copies["kind"] == "h2d") & (one.copies["time"] >= one.begin[0]))
        rows = rows.where(rows["time"] < one.end[-1])
        window.judged(len(one.begin))
        total = float(rows["bytes"].sum())
        known = rows.where(rows["memory"] != "")
        if not known.rows or total <= 0:
            return
        pageable = float(known["bytes"][known["memory"] == "pageable"].sum()) / float(known["bytes"].sum())
        open_ = difference(covered(rows), one.kind("compute"))
        exposed = 100.0 * float(one.within(open_).sum()) / float(one.wall.sum())
        per_step = total / len(one.begin)
        severity: Severity | None = None
        code = "pageable"
        if pageable >= 0.5 and (exposed >= self.exposed_pct or per_step >= self.min_mib * _MIB):
            severity = "critical" if exposed >= self.critical_pct else "warning"
        elif (
            pageable < 0.5
            and exposed >= self.exposed_pct
            and self._blocking(window, one.rank, rows["correlation"])
        ):
            severity, code = "warning", "blocking_copy"
        if severity is not None:
            how = (
                f"{100 * pageable:.0f} % from pageable memory" if code == "pageable" else "by blocking calls"
            )
            yield self.issue(
                f"rank {one.rank} copies {per_step / _MIB:.1f} MiB per step to gpu{one.device}, {how}",
                severity=severity,
                code=code,
                **one.about,
                evidence={
                    "pageable_pct": 100.0 * pageable,
                    "exposed_pct": exposed,
                    "bytes_per_step": per_step,
                    "gb_per_s": total / max(1.0, float(rows["duration"].sum())),
                },
            )

    def _blocking(self, window: Window, rank: int, correlations: NDArray[np.int64]) -> bool:
        """Return whether most copies use a blocking call."""
        launches = window.launches
        own = launches.where((launches["rank"] == rank) & np.isin(launches["correlation"], correlations))
        blocking = [bool(_BLOCKING.search(name)) for name in own["name"].tolist()]
        return bool(blocking) and sum(blocking) >= 0.5 * len(blocking)

    def _by_loader(self, window: Window) -> Issues:
        unpinned = {int(rank) for rank, off in window.state.get("unpinned", {}).items() if off}
        steps = window.steady
        for rank in np.unique(steps["rank"]).tolist():
            own = steps.where(steps["rank"] == rank)
            if own.rows < _MIN_STEPS or rank not in unpinned:
                continue
            share = 100.0 * float(own["h2d"].sum()) / float(own["duration"].sum())
            window.judged(own.rows)
            if share >= self.exposed_pct:
                yield self.issue(
                    f"rank {rank} spends {share:.0f} % of its steps on copies to the device, and its loader "
                    "does not pin memory",
                    severity="critical" if share >= self.critical_pct else "warning",
                    code="loader",
                    rank=int(rank),
                    step_start=int(own["step"].min()),
                    step_end=int(own["step"].max()),
                    evidence={"h2d_pct": share, "pin_memory": False},
                )
        if not window.points:
            window.insufficient(
                "no_input", f"neither a copy nor a loader without pinned memory was recorded: {HOW}"
            )
