"""OutOfMemoryRisk: GPU or host memory is nearly full."""

from __future__ import annotations

from typing import Any

import numpy as np

from holter.analysis.steps.spread import median
from holter.rules import Issues, Lookback, Place, Rule, Severity, Window, parameter, rule_class
from holter.rules.engine.levels import grade
from holter.rules.engine.trend import mann_kendall, theil_sen
from holter.rules.patterns.gpu_owners import READS, owners
from holter.rules.patterns.ranks import by_rank

_STEPS = 50
_HOST_S = 60.0
_CACHE_PCT = 30.0
"""Share of unused reserved memory from which fragmentation is the likely cause."""
_GROWN_POINTS = 2.0


@rule_class
class OutOfMemoryRisk(Rule):
    """GPU memory at its peak or host memory is close to its limit, or an allocation failed."""

    reads = (
        "scalars/cuda.reserved_peak",
        "scalars/cuda.allocated_peak",
        "scalars/cuda.total",
        "scalars/cuda.ooms",
        "samples/gpu.mem.used_pct",
        "samples/mem.used_pct",
        "events/oom",
        READS,
        "steps",
    )
    formula = (
        "peak reserved / device >= device_warning or device_critical, each less rising_points while the "
        "peak rises; host or control group >= host_warning or host_critical; any failed allocation: "
        "critical"
    )
    advice = (
        "Use a smaller micro-batch, checkpoint activations, or set "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True. If memory grows, see GPUMemoryLeak."
    )
    packs = ("default", "essentials")
    tells_once = ("failed",)
    lookback = Lookback(seconds=_HOST_S)

    device_warning: float = parameter(92.0, low=0, high=100, unit="%")
    """A fuller GPU is a warning."""
    device_critical: float = parameter(97.0, low=0, high=100, unit="%")
    """A fuller GPU is critical."""
    rising_points: float = parameter(5.0, low=0, high=100, unit="percentage points")
    """Both GPU limits are lower by this while the peak rises."""
    host_warning: float = parameter(85.0, low=0, high=100, unit="%")
    """A fuller host or control group is a warning."""
    host_critical: float = parameter(95.0, low=0, high=100, unit="%")
    """A fuller host or control group is critical."""

    def evaluate(self, window: Window) -> Issues:
        """Judge new failed allocations, the peaks of the ranks, and the memory of GPUs and hosts."""
        yield from self._failed(window)
        before: list[list[Any]] = window.state.get("held", [])
        high = [*self._ranks(window), *self._devices(window, owners(window)), *self._hosts(window)]
        window.state["held"] = [list(issue.key) for issue in high]
        # A level must hold at two evaluations; a failed allocation is reported at once.
        yield from (issue for issue in high if list(issue.key) in before or window.job.ended)
        if not window.points:
            window.insufficient("no_input", "no reading of memory")

    def _failed(self, window: Window) -> Issues:
        events = window.new("events")
        for row in events.where(events["kind"] == "oom").to_rows():
            yield self.issue(
                "an allocation failed for want of memory",
                severity="critical",
                code="failed",
                node=row["node"],
                rank=row["rank"] if row["rank"] >= 0 else None,
                time_start=row["time"],
                time_end=row["time"],
                evidence={"event": str(row["name"])[:200]},
            )
        seen: dict[str, float] = window.state.setdefault("ooms", {})
        for rank, series in by_rank(window.new("scalars"), "cuda.ooms").items():
            before, now = seen.get(str(rank), 0.0), float(series.value.max())
            seen[str(rank)] = max(before, now)
            if now > before:
                yield self.issue(
                    f"{now - before:.0f} allocations on the GPU of rank {rank} failed and were caught",
                    severity="critical",
                    code="failed",
                    node=series.node,
                    rank=rank,
                    count=int(now - before),
                    step_start=int(series.step[0]),
                    step_end=int(series.step[-1]),
                    evidence={"out_of_memory": now},
                )

    def _ranks(self, window: Window) -> Issues:
        kept = window.state.setdefault("ranks", {})
        for name in ("reserved_peak", "allocated_peak", "total"):
            for rank, series in by_rank(window.new("scalars"), f"cuda.{name}").items():
                one = kept.setdefault(str(rank), {"node": series.node})
                one[name] = [*one.get(name, []), *series.value.tolist()][-_STEPS:]
                if name == "reserved_peak":
                    one["step"] = [*one.get("step", []), *series.step.tolist()][-_STEPS:]
        for rank, one in sorted((int(name), one) for name, one in kept.items()):
            peak, total = np.array(one.get("reserved_peak", [])), one.get("total", [0.0])[-1]
            if not len(peak) or total <= 0:
                continue
            window.judged(len(peak))
            full, cache = 100.0 * float(peak.max()) / total, None
            if "allocated_peak" in one:
                cache = 100.0 - 100.0 * max(one["allocated_peak"]) / max(float(peak.max()), 1.0)
            grows = len(peak) >= 20 and theil_sen(peak) > 0 and mann_kendall(peak) >= 4
            severity = self._severity(full, grows)
            if severity is not None and (cache is None or cache < _CACHE_PCT):
                yield self.issue(
                    f"the GPU memory of rank {rank} was {full:.0f} % full at its peak"
                    + (", and it rises" if grows else ""),
                    severity=severity,
                    code="device",
                    node=one["node"],
                    rank=rank,
                    step_start=min(one["step"]),
                    step_end=max(one["step"]),
                    evidence={"peak_pct": full, "cached_pct": cache, "rises": grows, "device_bytes": total},
                )

    def _devices(self, window: Window, known: dict[Place, int]) -> Issues:
        """Judge by the driver's figure if the allocator's is unknown, and only if it has grown.

        Some frameworks reserve all memory at the start, so a constant level says nothing.
        """
        loop = window.job.loop
        if window.state.get("ranks") or loop is None:
            return
        first: dict[str, float] = window.state.setdefault("first", {})
        for (node, device), series in window.series("gpu.mem.used_pct", since=loop).items():
            early = first.setdefault(f"{node}/{device}", float(series.value[0]))
            window.judged(len(series.value))
            now = median(series.value[-10:])
            # Only the driver's list of processes separates this job's memory from other jobs' memory.
            if known.get((node, device), 0) and now - early >= _GROWN_POINTS:
                severity = self._severity(now, grows=False)
                if severity is not None:
                    yield self.issue(
                        f"the memory of {device} is {now:.0f} % full",
                        severity=severity,
                        code="device",
                        node=node,
                        device=device,
                        time_end=int(series.time[-1]),
                        evidence={"used_pct": now, "used_pct_at_start": early},
                    )

    def _hosts(self, window: Window) -> Issues:
        since = window.end - round(_HOST_S * 1e9)
        for (node, _), series in window.series("mem.used_pct", since=since).items():
            window.judged(len(series.value))
            used = float(np.median(series.value))
            severity = grade(used, warning=self.host_warning, critical=self.host_critical)
            if severity is not None:
                yield self.issue(
                    f"host memory is {used:.0f} % full",
                    severity=severity,
                    code="host",
                    node=node,
                    **series.span,
                    evidence={"used_pct": used},
                    advice="Fewer loader workers, smaller caches and prefetch; see HostMemoryLeak.",
                )

    def _severity(self, full: float, grows: bool) -> Severity | None:
        lower = self.rising_points if grows else 0.0
        return grade(full, warning=self.device_warning - lower, critical=self.device_critical - lower)
