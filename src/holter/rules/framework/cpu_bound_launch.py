"""CpuBoundLaunch: the GPU waits because the host launches kernels too late."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.intervals import difference, union
from holter.rules import Issues, Lookback, Rule, Table, Window, parameter, rule_class
from holter.rules.engine.levels import grade
from holter.rules.patterns.gpu_owners import READS, ours, owners
from holter.rules.patterns.profiled import LOOKBACK_S, Profiled, covered, elsewhere, profiled

if TYPE_CHECKING:
    from numpy.typing import NDArray


_SLACK_NS = 5_000
"""A launch this shortly before the device ran dry came too late as well: launching itself takes that long."""
_SMALL_NS, _MEDIAN_NS = 10_000, 20_000
_SLOW_HOST_NS = 20_000
_BREAKS = 10


@rule_class
class CpuBoundLaunch(Rule):
    """A device idles because the host launched its next kernel only after the device ran out of work."""

    reads = (
        "kernels",
        "launches",
        "memory_operations",
        "syncs",
        "operators",
        "steps",
        "spans/data_loading",
        "spans/checkpoint",
        "spans/eval",
        "spans/gc",
        "spans/compile",
        "spans/step",
        "samples/gpu.sm_active",
        "samples/gpu.util",
        "samples/gpu.power",
        "samples/gpu.power_limit",
        READS,
    )
    formula = (
        "GPU gaps whose next kernel was launched no earlier than 5 us before the gap began (without data "
        "loading, checkpoints, evaluation, gc, compiling and syncs) / step time >= info, warning, or "
        "critical"
    )
    advice = "Use torch.compile or CUDA graphs, a fused or foreach optimizer, or a larger batch."
    packs = ("deep_trace",)
    lookback = Lookback(seconds=LOOKBACK_S)

    info: float | None = parameter(8.0, above=0, high=100, unit="%")
    """Share of the step time from which the rule reports a note."""
    warning: float | None = parameter(15.0, above=0, high=100, unit="%")
    """Share of the step time that is a warning."""
    critical: float | None = parameter(35.0, above=0, high=100, unit="%")
    """Share of the step time that is critical."""
    min_steps: int = parameter(5, low=1, unit="steps")
    """Minimum number of profiled steps; fewer are not judged."""

    def evaluate(self, window: Window) -> Issues:
        """Judge each profiled device; without profiled devices, judge the counters."""
        found = profiled(window, self.min_steps)
        for one in found:
            late = self._late(window, one)
            if late is None:
                window.insufficient("no_match", "the kernels have no correlation id of their launch")
                continue
            window.judged(len(one.begin))
            share = 100.0 * late / float(one.wall.sum())
            severity = grade(share, info=self.info, warning=self.warning, critical=self.critical)
            if severity is not None:
                code, facts = _cause(window, one)
                yield self.issue(
                    f"gpu{one.device} of rank {one.rank} waits {share:.0f} % of its steps for the host to "
                    "launch work",
                    severity=severity,
                    code=code,
                    **one.about,
                    evidence={"launch_gap_pct": share, "profiled_steps": len(one.begin), **facts},
                )
        if not found:
            yield from self._counters(window)

    def _late(self, window: Window, one: Profiled) -> int | None:
        """Return the time within steps in which the device waited for a launch, in ns."""
        launches = window.launches
        known = launches.where((launches["rank"] == one.rank) & (launches["correlation"] != 0))
        idle, correlation = one.idle()
        if not known.rows:
            return None
        order = np.argsort(known["correlation"], kind="stable")
        numbers, times = known["correlation"][order], known["time"][order]
        at = np.minimum(np.searchsorted(numbers, correlation), len(numbers) - 1)
        late = (numbers[at] == correlation) & (times[at] >= idle.begin - _SLACK_NS)
        syncs = window.syncs
        host = covered(syncs.where(syncs["rank"] == one.rank))
        others = elsewhere(window, one.rank)
        without = union(np.concatenate([host.begin, others.begin]), np.concatenate([host.end, others.end]))
        blamed = difference(union(idle.begin[late], idle.end[late]), without)
        return int(one.within(blamed).sum())

    def _counters(self, window: Window) -> Issues:
        """Judge by counters: a kernel always runs, but few multiprocessors are busy."""
        metrics = ("gpu.sm_active", "gpu.util", "gpu.power", "gpu.power_limit")
        series = [window.series(metric) for metric in metrics]
        places = set(series[0]).intersection(*series[1:])
        for place in ours(places, owners(window)):
            active, util, power, limit = (float(np.median(s[place].value)) for s in series)
            span = int(series[0][place].time[-1] - series[0][place].time[0])
            if span < 0.9e9 * LOOKBACK_S:
                continue
            window.judged(len(series[0][place].value))
            if active < 30 and util > 80 and power < 0.5 * limit:
                yield self.issue(
                    f"{place[1]} always runs a kernel, but only {active:.0f} % of its multiprocessors "
                    "are busy",
                    severity="info",
                    code="counters",
                    node=place[0],
                    device=place[1],
                    time_end=window.end,
                    evidence={"sm_active_pct": active, "util_pct": util, "power_w": power},
                )


def _cause(window: Window, one: Profiled) -> tuple[str, dict[str, float]]:
    length = one.kernels["duration"][one.kernels["kind"] == "compute"]
    small = 100.0 * float((length < _SMALL_NS).mean()) if len(length) else 0.0
    launches = window.launches.where(window.launches["rank"] == one.rank)
    between = _between(launches)
    operators = window.operators
    regions = np.char.find(operators["name"].astype(str), "Torch-Compiled Region") >= 0
    breaks = float((regions & (operators["rank"] == one.rank)).sum()) / len(one.begin)
    facts = {
        "small_kernels_pct": small,
        "kernel_median_us": _weighted_median(length) / 1e3,
        "host_between_launches_us": between / 1e3,
        "compiled_regions_per_step": breaks,
    }
    if breaks > _BREAKS:
        return "graph_breaks", facts
    if small >= 50 or (len(length) > 0 and _weighted_median(length) < _MEDIAN_NS):
        return "small_kernels", facts
    return ("python_overhead" if between > _SLOW_HOST_NS else "late_launches"), facts


def _between(launches: Table) -> float:
    """Return the host's median time between two launches of a thread, in ns."""
    parts = []
    for thread in np.unique(launches["thread"]):
        own = launches.where(launches["thread"] == thread).sorted("time")
        parts.append(own["time"][1:] - (own["time"] + own["duration"])[:-1])
    every = np.concatenate(parts) if parts else np.empty(0)
    return float(np.median(every)) if len(every) else 0.0


def _weighted_median(length: NDArray[np.int64]) -> float:
    """Return the duration up to which kernels take half of the total kernel time."""
    if not len(length):
        return 0.0
    ordered = np.sort(length)
    total = np.cumsum(ordered)
    return float(ordered[np.searchsorted(total, total[-1] / 2)])
