"""HostMemoryLeak: host memory use grows steadily."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.rules import Issues, Lookback, Rule, Window, parameter, rule_class
from holter.rules.engine.trend import rising

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BIN_NS = 30_000_000_000
_POINTS = 240
_HOUR_BINS = 3600e9 / _BIN_NS
_MIB, _GIB = 2**20, 2**30
_CAUSES = {"trainer": "main", "worker": "workers"}
"""Names of the process roles for messages; other roles keep their name."""


@rule_class
class HostMemoryLeak(Rule):
    """The memory of the job's processes on a node shows a steady upward trend that does not level off."""

    reads = ("samples/proc.private", "samples/proc.rss", "samples/mem.available", "samples/shm.used")
    formula = (
        "over 30 s medians after skip_s: Mann-Kendall z >= min_z, slope >= min_slope_mib_h and >= 0.5 % of "
        "RAM per hour, slope of both halves >= 0.3 x the whole slope, growth >= min_growth_gib and >= 2 % "
        "of RAM"
    )
    advice = (
        "Store the dataset's items in arrays instead of Python lists, restart loader workers each epoch, "
        "and detach tensors that are collected per step."
    )
    packs = ("default", "essentials")
    every_s = 60.0
    consecutive = 2
    lookback = Lookback(seconds=(_POINTS + 2) * _BIN_NS / 1e9)

    skip_s: float = parameter(600.0, low=0, unit="s")
    """Start-up time that is ignored."""
    min_points: int = parameter(60, low=4, high=_POINTS, unit="medians of 30 s")
    """Number of 30 s medians that the rule needs."""
    min_z: float = parameter(4.0, above=0)
    """Confidence of the trend, as a Mann-Kendall z score."""
    min_slope_mib_h: float = parameter(256.0, low=0, unit="MiB/h")
    """Slower growth is not a leak."""
    min_growth_gib: float = parameter(1.0, low=0, unit="GiB")
    """Smaller growth since the start is not a leak."""
    critical_h: float = parameter(6.0, low=0, unit="h")
    """Critical when memory reaches 90 % within this time, or when less than 10 % is available."""

    def evaluate(self, window: Window) -> Issues:
        """Judge each node by itself."""
        since = window.job.start + round(self.skip_s * 1e9)
        series = window.series("proc.private", since=since) or window.series("proc.rss", since=since)
        if not series:
            if window.end <= since:
                return window.insufficient("patience_not_reached", "start-up has not ended")
            return window.insufficient("no_input", "no memory of processes was read after start-up")
        for node in sorted({node for node, _ in series}):
            roles = {role: one for (where, role), one in series.items() if where == node}
            last_bin = (window.end - since) // _BIN_NS
            parts = {role: _medians(one.time - since, one.value, last_bin) for role, one in roles.items()}
            total = np.nansum(list(parts.values()), axis=0)
            total[np.all(np.isnan(list(parts.values())), axis=0)] = np.nan
            base = window.state.setdefault("base", {})
            if node not in base and np.isfinite(total).sum() >= 10:
                early = np.flatnonzero(np.isfinite(total))[:10]
                base[node] = {
                    r: float(np.nanmedian(np.append(m[early], np.nan))) for r, m in parts.items()
                } | {"": float(np.median(total[early]))}
            total = total[np.isfinite(total)][-_POINTS:]
            if len(total) < self.min_points:
                text = f"{node} was observed for too short a time after start-up"
                window.insufficient("patience_not_reached", text, have=len(total), need=self.min_points)
                continue
            window.judged(len(total))
            yield from self._judge(window, node, total, parts, base[node])

    def _judge(
        self,
        window: Window,
        node: str,
        total: NDArray[np.float64],
        parts: dict[str, NDArray[np.float64]],
        base: dict[str, float],
    ) -> Issues:
        memory = float(window.job.nodes.get(node, {}).get("memory_bytes") or 0)
        now = float(np.median(total[-10:]))
        growth = now - base[""]
        slope = (rising(total, min_z=self.min_z) or 0.0) * _HOUR_BINS
        if (
            slope <= 0
            or slope < max(self.min_slope_mib_h * _MIB, 0.005 * memory)
            or growth < max(self.min_growth_gib * _GIB, 0.02 * memory)
        ):
            return
        free = window.series("mem.available").get((node, ""))
        available = float(free.value[-1]) if free is not None else None
        hours = (available - 0.1 * memory) / slope if available is not None and memory else None
        soon = hours is not None and hours < self.critical_h
        grown = {r: _last(m) - base[r] for r, m in parts.items() if r in base and np.isfinite(base[r])}
        shared = window.series("shm.used").get((node, ""))
        if shared is not None and len(shared.value) > 1:
            grown["shm"] = float(shared.value[-1] - shared.value[0])
        cause = next((_CAUSES.get(r, r) for r, g in grown.items() if g >= 0.7 * growth), "several")
        yield self.issue(
            f"the job's memory on {node} grows by {slope / _GIB:.2f} GiB per hour"
            + (f"; nearly full in {max(hours, 0.0):.1f} h" if hours is not None and soon else ""),
            severity="critical" if soon else "warning",
            node=node,
            time_start=window.end - len(total) * _BIN_NS,
            time_end=window.end,
            evidence={
                "slope_bytes_per_h": slope,
                "growth_bytes": growth,
                "now_bytes": now,
                "available_bytes": available,
                "hours_to_90_pct": hours,
                "cause": cause,
                "growth_bytes_by": grown,
            },
        )


def _medians(offset: NDArray[np.int64], values: NDArray[np.float64], last_bin: int) -> NDArray[np.float64]:
    """Return the medians of whole 30 s intervals, oldest first; NaN for intervals without readings."""
    edges = (np.arange(_POINTS + 3) + last_bin - _POINTS - 2) * _BIN_NS
    starts = np.searchsorted(offset, edges)
    counts = np.diff(starts)
    found = np.full(_POINTS + 2, np.nan)
    # Most bins have the same number of readings, so bins of one size are sorted together.
    for count in np.unique(counts[counts > 0]).tolist():
        bins = np.flatnonzero(counts == count)
        found[bins] = np.median(values[starts[bins, None] + np.arange(count)], axis=1)
    return found


def _last(medians: NDArray[np.float64]) -> float:
    known = medians[np.isfinite(medians)]
    return float(np.median(known[-10:])) if len(known) else 0.0
