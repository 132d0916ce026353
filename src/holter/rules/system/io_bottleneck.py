"""IOBottleneck: a GPU idles while the machine waits for storage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.loading import dataloading
from holter.analysis.machine.snapshots import any_above, matrix
from holter.rules import Issues, Lookback, Table, Window, parameter, rule_class
from holter.rules.engine.job_facts import steps_span
from holter.rules.patterns.gpu_owners import READS
from holter.rules.patterns.patience import start_of
from holter.rules.patterns.snapshot_rule import SnapshotRule

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SPANS_S = 60.0
"""How far back the rule reads the spans of the data loader, which are many."""
_READING = ("read", "decode", "transform", "fetch")


@rule_class
class IOBottleneck(SnapshotRule):
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

    io_threshold: float = parameter(50.0, low=0, high=100, unit="%")
    """A core with a higher I/O wait than this waits for storage."""
    psi_threshold: float | None = parameter(20.0, classic=None, low=0, high=100, unit="%")
    """The node also waits for storage from this I/O pressure on."""
    data_threshold: float | None = parameter(20.0, classic=None, low=0, high=100, unit="%")
    """The rule examines reads when data loading takes this share of the loop."""
    read_threshold: float = parameter(50.0, low=0, high=100, unit="%")
    """Share of the time to build a batch that is spent reading."""
    min_steps: int = parameter(50, low=1, unit="steps")
    """Minimum number of steps; data loading of fewer is not judged."""

    @property
    def lookback(self) -> Lookback:
        """The window (or new rows only), and the last 200 steps of each rank."""
        return Lookback(seconds=self.window_s, steps=200)

    def evaluate(self, window: Window) -> Issues:
        """Judge the machine by its snapshots, then training by its reads."""
        if (since := start_of(window, self.skip_before_first_step)) is None:
            return
        yield from self._machine(window, since)
        if self.data_threshold is not None:
            yield from self._reads(window, window.steady)
        if not window.points and window.lack is None:
            window.insufficient("no_input", "neither gpu.util with I/O waits nor spans of data loading")

    def _machine(self, window: Window, since: int) -> Issues:
        cores = window.series("cpu.core.iowait", since=since)
        pressure = window.series("psi.io", since=since) if self.psi_threshold is not None else {}

        def reason(node: str, at: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
            waits = matrix(cores, node, at)
            some = np.nan_to_num(matrix(pressure, node, at), nan=-1.0) >= (self.psi_threshold or 0.0)
            slow = any_above(waits, self.io_threshold) | some.any(axis=0)
            return slow, (waits > self.io_threshold).sum(axis=0)

        nodes = {node for node, _ in [*cores, *pressure]}
        yield from self.judge_nodes(window, since, nodes, reason, "cores waited for I/O", "machine")

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
                **steps_span(recent),
                evidence={"data_loading_pct": share, "read_pct_of_fetch": read},
            )
