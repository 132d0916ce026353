"""IOBottleneck: a GPU idles while the machine waits for storage."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.loading import dataloading
from holter.analysis.machine.snapshots import any_above, any_below, matrix, moments, told, totals
from holter.rules import Issues, Lookback, Rule, Table, Window, parameter
from holter.rules.patterns.gpu_owners import READS, ours, owners

if TYPE_CHECKING:
    from collections.abc import Callable


_SPANS_S = 60.0
"""How far back the rule reads the spans of the data loader, which are many."""
_READING = ("read", "decode", "transform", "fetch")


@dataclass(frozen=True, slots=True, kw_only=True)
class IOBottleneck(Rule):
    """A GPU idles while cores wait for storage, or training waits for data and loading is mostly reading."""

    reads = (
        "samples/gpu.util",
        "samples/cpu.core.iowait",
        "samples/psi.io",
        READS,
        "steps",
        "spans/data_loading",
        "spans/fetch",
        "spans/collate",
        "spans/stack",
        "spans/step",
    )
    formula = (
        "share of snapshots with a GPU < gpu_threshold and I/O wait > io_threshold (or psi.io >= "
        "psi_threshold) is above threshold; or data loading >= data_threshold of the loop and reads >= "
        "read_threshold of the fetch time"
    )
    advice = "Keep data close: use a local cache, larger files, or a sequential format."
    packs = ("default", "performance", "sagemaker")
    every_s = 30.0

    threshold: float = parameter(20.0, classic=50.0, low=0, high=100, unit="%")
    """Share of snapshots that may show the bottleneck."""
    gpu_threshold: float = parameter(30.0, classic=10.0, low=0, high=100, unit="%")
    """A GPU below this utilization idles."""
    io_threshold: float = parameter(50.0, low=0, high=100, unit="%")
    """A core with a higher I/O wait than this waits for storage."""
    psi_threshold: float | None = parameter(20.0, classic=None, low=0, high=100, unit="%")
    """The node also waits for storage from this I/O pressure on."""
    data_threshold: float | None = parameter(20.0, classic=None, low=0, high=100, unit="%")
    """The rule examines reads when data loading takes this share of the loop."""
    read_threshold: float = parameter(50.0, low=0, high=100, unit="%")
    """Share of the time to build a batch that is spent reading."""
    patience: int | None = parameter(None, classic=1000, above=0, unit="snapshots", instead_of="patience_s")
    """The rule judges a node only after more snapshots than this."""
    patience_s: float | None = parameter(300.0, classic=None, above=0, unit="s")
    """The same as a time, counted from the end of warm-up."""
    window_s: float | None = parameter(600.0, classic=None, above=0, unit="s")
    """How far back snapshots count; none = the whole job."""
    min_steps: int = parameter(50, low=1, unit="steps")
    """Minimum number of steps; data loading of fewer is not judged."""
    skip_before_first_step: bool = parameter(True, classic=False)
    """Ignore readings before the end of warm-up."""

    @property
    def lookback(self) -> Lookback:
        """The window (or new rows only), and the last 200 steps of each rank."""
        return Lookback(seconds=self.window_s, steps=200)

    def evaluate(self, window: Window) -> Issues:
        """Judge the machine by its snapshots, then training by its reads."""
        since = window.job.loop if self.skip_before_first_step else window.job.start - 1
        if since is None:
            return window.insufficient("patience_not_reached", "warm-up has not ended")
        yield from self._machine(window, since)
        if self.data_threshold is not None:
            yield from self._reads(window, window.steady)
        if not window.points and window.lack is None:
            window.insufficient("no_input", "neither gpu.util with I/O waits nor spans of data loading")

    def _machine(self, window: Window, since: int) -> Issues:
        gpus = window.series("gpu.util", since=since)
        gpus = {place: gpus[place] for place in ours(gpus, owners(window))}
        cores = window.series("cpu.core.iowait", since=since)
        pressure = window.series("psi.io", since=since)
        waits = {node for node, _ in cores} | (
            {node for node, _ in pressure} if self.psi_threshold else set()
        )
        known = window.state.setdefault("snapshots", {})
        details: dict[str, Callable[[], dict[str, Any]]] = {}
        for node in sorted({node for node, _ in gpus} & waits):
            at = moments(gpus, node)
            used, waits_of = matrix(gpus, node, at), matrix(cores, node, at)
            low = any_below(used, self.gpu_threshold)
            slow = any_above(waits_of, self.io_threshold)
            if self.psi_threshold is not None:
                some = np.nan_to_num(matrix(pressure, node, at), nan=-1.0)
                slow |= np.asarray((some >= self.psi_threshold).any(axis=0))
            both = low & slow
            seen = totals(both, low, known.get(node, ()) if self.window_s is None else ())
            if self.window_s is None:
                known[node] = list(seen)
            bad, count, _ = seen
            window.hand_over(lambda: {node: one() for node, one in details.items()})
            details[node] = partial(
                told,
                at,
                both,
                seen,
                GPUs=(used < self.gpu_threshold).sum(axis=0),
                CPUs=(waits_of > self.io_threshold).sum(axis=0),
            )
            seconds = (int(at[-1]) - since) / 1e9
            have, need = (count, self.patience) if self.patience is not None else (seconds, self.patience_s)
            if need is not None and have <= need:
                text = f"{node} was observed for too short a time"
                window.insufficient("patience_not_reached", text, have=have, need=need)
                continue
            window.judged(count)
            share = 100.0 * bad / count
            if share > self.threshold:
                yield self.issue(
                    f"a GPU was below {self.gpu_threshold:g} % while cores waited for I/O in "
                    f"{share:.0f} % of snapshots",
                    code="machine",
                    node=node,
                    time_start=int(at[0]),
                    time_end=int(at[-1]),
                    evidence={"bottleneck_pct": share, "bottlenecks": bad, "snapshots": count},
                )

    def _reads(self, window: Window, steps: Table) -> Issues:
        recent = steps.where(steps["time"] >= window.end - round(_SPANS_S * 1e9))
        if recent.rows < self.min_steps:
            return
        share = 100.0 * float(recent["data_loading"].sum()) / float(recent["duration"].sum())
        window.judged(recent.rows)
        if share < (self.data_threshold or 0.0):
            return
        spans = window.spans
        spans = spans.where(spans["time"] >= window.end - round(_SPANS_S * 1e9))
        loading = dataloading.stages(spans, recent, [], np.ones(recent.rows, dtype=bool))
        fetch = sum(loading.stages.get(name, 0.0) for name in _READING) if loading else 0.0
        read = 100.0 * loading.stages.get("read", 0.0) / fetch if loading and fetch else 0.0
        if read >= self.read_threshold:
            yield self.issue(
                f"training waits for data {share:.0f} % of the time; "
                f"{read:.0f} % of the loading time is reading",
                code="reads",
                step_start=int(recent["step"].min()),
                step_end=int(recent["step"].max()),
                time_start=int(recent["time"].min()),
                time_end=int((recent["time"] + recent["duration"]).max()),
                evidence={"data_loading_pct": share, "read_pct_of_fetch": read},
            )
