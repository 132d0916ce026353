"""HostDeviceSyncStorm: the host waits for the GPU too often, which leaves the GPU idle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.intervals import difference, inside, measure, union
from holter.rules import Issues, Lookback, Rule, Severity, Table, Window, parameter, rule_class
from holter.rules.engine.levels import grade, worst
from holter.rules.patterns.profiled import HOW, LOOKBACK_S, Profiled, elsewhere, profiled

if TYPE_CHECKING:
    from numpy.typing import NDArray


_AFTER_NS = 200_000
"""Idle time that begins this soon after a wait is caused by it, because the host has no launches queued."""


@rule_class
class HostDeviceSyncStorm(Rule):
    """The host waits for the device, after which the device waits for the host."""

    reads = (
        "syncs",
        "kernels",
        "memory_operations",
        "operators",
        "steps",
        "spans/data_loading",
        "spans/checkpoint",
        "spans/eval",
        "spans/gc",
        "spans/compile",
        "spans/step",
    )
    formula = (
        "GPU idle time that begins in a sync or within 200 us after it / step time >= info, warning, or "
        "critical; `syncs` per step raise a note to a warning; without kernels: syncs per step >= many_info"
        " or many_warning"
    )
    advice = (
        "Keep metrics on the device and read them every few steps, copy with non_blocking=True, and use "
        "masks instead of nonzero."
    )
    packs = ("deep_trace",)
    lookback = Lookback(seconds=LOOKBACK_S)

    info: float | None = parameter(3.0, above=0, high=100, unit="%")
    """Share of the step time from which the rule reports a note."""
    warning: float | None = parameter(10.0, above=0, high=100, unit="%")
    """Share of the step time that is a warning."""
    critical: float | None = parameter(25.0, above=0, high=100, unit="%")
    """Share of the step time that is critical."""
    syncs: float = parameter(10.0, above=0, unit="syncs per step")
    """This many syncs per step turn a note into a warning."""
    many_info: float | None = parameter(20.0, above=0, unit="syncs per step")
    """Without recorded kernels, this many syncs per step are a note."""
    many_warning: float | None = parameter(100.0, above=0, unit="syncs per step")
    """Without recorded kernels, this many syncs per step are a warning."""
    min_steps: int = parameter(5, low=1, unit="steps")
    """Minimum number of profiled steps; fewer are not judged."""

    def evaluate(self, window: Window) -> Issues:
        """Judge each profiled device by its idle time; without kernels, each rank by its number of syncs."""
        if not window.syncs.rows and not window.kernels.rows:
            return window.insufficient("no_input", f"no sync was recorded: {HOW}")
        if not window.kernels.rows:
            yield from self._counted(window)
            return
        for one in profiled(window, self.min_steps):
            window.judged(len(one.begin))
            syncs = _outside(window, one.rank)
            count = _per_step(syncs, one.begin, one.end)
            begin, end = self._drained(window, one, syncs)
            drained = float(measure(union(begin, end), one.begin, one.end).sum())
            harm = 100.0 * drained / float(one.wall.sum())
            severity = grade(harm, info=self.info, warning=self.warning, critical=self.critical)
            often: Severity | None = "warning" if severity is not None and count >= self.syncs else None
            severity = worst(severity, often)
            if severity is not None:
                lines = _blame(syncs, begin, end, len(one.begin))
                where = f", most by {lines[0]['name']}" if lines else ""
                yield self.issue(
                    f"gpu{one.device} of rank {one.rank} idles {harm:.0f} % of its steps because the host "
                    f"waits for it{where}",
                    severity=severity,
                    code="drained",
                    **one.about,
                    evidence={"harm_pct": harm, "syncs_per_step": count, "lines": lines},
                )

    def _drained(
        self, window: Window, one: Profiled, syncs: Table
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the idle times that syncs cause, without data loading and similar phases."""
        idle, _ = one.idle()
        waits = union(syncs["time"], syncs["time"] + syncs["duration"] + _AFTER_NS)
        caused = inside(waits, idle.begin)
        return difference(union(idle.begin[caused], idle.end[caused]), elsewhere(window, one.rank))

    def _counted(self, window: Window) -> Issues:
        if window.unchanged("syncs"):
            return
        steps = window.warm
        for rank in np.unique(window.syncs["rank"]).tolist():
            own = steps.where(steps["rank"] == rank).sorted("time")
            syncs = _outside(window, rank)
            begin = own["time"]
            end = begin + own["duration"]
            some = np.searchsorted(syncs["time"], end) > np.searchsorted(syncs["time"], begin)
            if some.sum() < self.min_steps:
                have = int(some.sum())
                window.too_few("too few steps with syncs", have, self.min_steps)
                continue
            window.judged(int(some.sum()))
            count = _per_step(syncs, begin[some], end[some])
            severity = grade(count, info=self.many_info, warning=self.many_warning)
            if severity is not None:
                yield self.issue(
                    f"rank {rank} waits for its GPU {count:.0f} times per step",
                    severity=severity,
                    code="counted",
                    rank=int(rank),
                    evidence={"syncs_per_step": count},
                )


def _outside(window: Window, rank: int) -> Table:
    """Return a rank's syncs inside its steps, in the order of time."""
    syncs = window.syncs
    rows = syncs.where(syncs["rank"] == rank)
    return rows.where(~inside(elsewhere(window, rank), rows["time"])).sorted("time")


def _per_step(syncs: Table, begin: NDArray[np.int64], end: NDArray[np.int64]) -> float:
    counts = np.searchsorted(syncs["time"], end) - np.searchsorted(syncs["time"], begin)
    return float(np.median(counts)) if len(counts) else 0.0


def _blame(
    syncs: Table, begin: NDArray[np.int64], end: NDArray[np.int64], steps: int
) -> list[dict[str, object]]:
    """Return the callers of the syncs that cost most."""
    at = np.searchsorted(syncs["time"], begin, side="right") - 1
    known = at >= 0
    harm: dict[str, int] = {}
    for name, ns in zip(syncs["name"][at[known]].tolist(), (end - begin)[known].tolist(), strict=True):
        harm[name] = harm.get(name, 0) + ns
    names = syncs["name"].tolist()
    top = sorted(harm, key=lambda name: (-harm[name], name))[:5]
    return [
        {"name": n[:200], "ms_per_step": harm[n] / steps / 1e6, "per_step": names.count(n) / steps}
        for n in top
    ]
