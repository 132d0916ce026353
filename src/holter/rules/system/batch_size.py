"""BatchSize: CPU, GPU and GPU memory are all underused."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.machine.snapshots import busiest, matrix, moments
from holter.analysis.steps.spread import quantile
from holter.rules import Issue, Issues, Lookback, Rule, Series, Window, parameter, rule_class
from holter.rules.engine.quantile_sketch import QuantileSketch, add, box
from holter.rules.patterns.gpu_owners import READS, ours, owners
from holter.rules.patterns.patience import start_of, too_early
from holter.rules.patterns.ranks import by_rank

if TYPE_CHECKING:
    from numpy.typing import NDArray


@rule_class
class BatchSize(Rule):
    """The CPU, a GPU and its memory are underused, and no other bottleneck is visible."""

    reads = (
        "samples/cpu.core.util",
        "samples/gpu.util",
        "samples/gpu.mem.busy",
        "samples/gpu.mem.used_pct",
        READS,
        "scalars/cuda.allocated_peak",
        "steps",
    )
    severity = "info"
    formula = (
        "95th percentiles of CPU use, GPU use and GPU memory are all below their thresholds, while data "
        "loading and communication each take less than other_limit of the steps"
    )
    advice = "Raise the batch size, or use a smaller machine."
    packs = ("performance", "sagemaker")
    every_s = 30.0

    cpu_threshold_p95: float = parameter(70.0, low=0, high=100, unit="%")
    """The CPU is underused when its 95th percentile is below this."""
    gpu_threshold_p95: float = parameter(70.0, low=0, high=100, unit="%")
    """A GPU is underused when its 95th percentile is below this."""
    gpu_memory_threshold_p95: float = parameter(50.0, classic=70.0, low=0, high=100, unit="%")
    """GPU memory is underused when its 95th percentile is below this."""
    memory: str = parameter("used", classic="busy", choices=("used", "busy"))
    """Which reading of GPU memory is compared: the share in use, or how busy its controller is."""
    window: int | None = parameter(None, classic=500, above=0, unit="readings", instead_of="window_s")
    """Number of recent readings that are judged."""
    window_s: float | None = parameter(250.0, classic=None, above=0, unit="s")
    """The same as a time."""
    patience: int | None = parameter(None, classic=1000, above=0, unit="readings", instead_of="patience_s")
    """The rule judges a GPU only after more readings than this."""
    patience_s: float | None = parameter(300.0, classic=None, above=0, unit="s")
    """The same as a time, counted from the end of warm-up."""
    other_limit: float | None = parameter(10.0, classic=None, low=0, high=100, unit="%")
    """No finding while data loading or communication takes this share of the steps."""
    skip_before_first_step: bool = parameter(True, classic=False)
    """Ignore readings before the end of warm-up."""

    @property
    def lookback(self) -> Lookback:
        """The last minutes, or the last readings."""
        return Lookback(seconds=self.window_s or 250.0, readings=self.window)

    def evaluate(self, window: Window) -> Issues:
        """Judge each GPU whose node has an underused CPU."""
        if (since := start_of(window, self.skip_before_first_step)) is None:
            return
        metric = "gpu.mem.busy" if self.memory == "busy" else "gpu.mem.used_pct"
        seen = window.seen("gpu.util", since=since)
        gpus, memory = window.series("gpu.util", since=since), window.series(metric, since=since)
        cores = window.series("cpu.core.util", since=since)
        known = owners(window)
        both = ours(gpus.keys() & memory.keys(), known)
        if not both or not cores:
            return window.insufficient("no_input", f"gpu.util, {metric} and cpu.core.util are needed")
        sketches = self._remember(window, metric, since)
        busy = self._busy_elsewhere(window)
        silent = {} if busy is None else {"silent_because": busy}
        window.hand_over(lambda: {"boxes": {n: box(s) for n, s in sorted(sketches.items())}, **silent})
        for node in sorted({node for node, _ in both} & {node for node, _ in cores}):
            at = moments(cores, node)
            readings = matrix(cores, node, at)
            cpu = self._p95(window, Series(at, busiest(readings, len(readings))))
            for device in (device for where, device in both if where == node):
                series = gpus[node, device]
                seconds = (int(series.time[-1]) - since) / 1e9
                if too_early(window, device, seen[node, device], self.patience, seconds, self.patience_s):
                    continue
                gpu, used = self._p95(window, series), self._p95(window, memory[node, device])
                if cpu is None or gpu is None or used is None or series.value.max() == 0:
                    window.insufficient("no_match", f"{device} was not used, or the CPU was not read")
                    continue
                window.judged(len(series.value))
                # Another bottleneck comes first: without it, the same batch uses the GPU more.
                low = cpu < self.cpu_threshold_p95 and gpu < self.gpu_threshold_p95
                if low and used < self.gpu_memory_threshold_p95 and busy is None:
                    yield self._found(window, node, device, series, (cpu, gpu, used))

    def _remember(self, window: Window, metric: str, since: int) -> dict[str, QuantileSketch]:
        """Add the new readings to the sketches and return all sketches."""
        sketches: dict[str, QuantileSketch] = window.state.setdefault("sketches", {})
        cores = window.series("cpu.core.util", since=since, new=True)
        for node in sorted({node for node, _ in cores}):
            readings = matrix(cores, node, moments(cores, node))
            add(sketches.setdefault(f"cpu of {node}", {}), busiest(readings, len(readings)))
        for what, name in (("gpu", "gpu.util"), ("memory", metric)):
            for (node, device), series in window.series(name, since=since, new=True).items():
                add(sketches.setdefault(f"{what} of {node}/{device}", {}), series.value)
        return sketches

    def _found(
        self, window: Window, node: str, device: str, series: Series, p95: tuple[float, float, float]
    ) -> Issue:
        evidence = dict(zip(("cpu_p95", "gpu_p95", "gpu_memory_p95"), p95, strict=True))
        factor, advice = _multiplier(window, node), self.advice
        if factor is not None:
            evidence["batch_multiplier"] = factor
            if factor >= 2:
                advice = (
                    f"Raise the batch size (memory fits {factor} times as much), or use a smaller machine."
                )
        return self.issue(
            f"{device}, its memory and the CPU are underused: 95th percentiles {p95[1]:.0f} %, "
            f"{p95[2]:.0f} % and {p95[0]:.0f} %",
            node=node,
            device=device,
            **series.span,
            evidence=evidence,
            advice=advice,
        )

    def _p95(self, window: Window, series: Series) -> float | None:
        value: NDArray[np.float64] = series.value
        if self.window is not None:
            value = value[-self.window :]
        elif self.window_s is not None:
            value = value[series.time > window.end - round(self.window_s * 1e9)]
        return quantile(value, 0.95) if len(value) else None

    def _busy_elsewhere(self, window: Window) -> str | None:
        steps = window.steady
        if self.other_limit is None or not steps.rows:
            return None
        total = float(steps["duration"].sum())
        for part in ("data_loading", "communication"):
            share = 100.0 * float(steps[part].sum()) / total
            if share >= self.other_limit:
                return f"{part} takes {share:.0f} % of the steps"
        return None


def _multiplier(window: Window, node: str) -> int | None:
    """Estimate by which factor the batch can grow, from the allocator statistics of the node's ranks.

    Memory that stays between steps (weights, gradients, optimizer state) does not grow with the batch.
    """
    peaks, between, totals = (
        by_rank(window.scalars, f"cuda.{name}") for name in ("allocated_peak", "allocated", "total")
    )
    factors = []
    for rank, peak in peaks.items():
        if peak.node == node and rank in between and rank in totals:
            total = float(totals[rank].value[-1])
            top, fixed = float(peak.value.max()) / total, float(np.median(between[rank].value)) / total
            if top - fixed >= 0.01:
                factors.append(math.floor((0.9 - fixed) / (top - fixed)))
    return min(factors, default=None)
