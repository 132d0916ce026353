"""`MetricsHistogram`: how often devices were used how much."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.compat.smdebug.profiler.analysis.notebook_utils.drawing import Charts, lines
from holter.views.figure import Axis, Figure, Series

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holter.compat.smdebug.profiler.system_metrics_reader import SystemMetricsReader

_EDGES = np.arange(0, 101, 2, dtype=float)
"""Bins of 2 %, the last one with 100 % itself."""


class MetricsHistogram(Charts):
    """A histogram for each dimension and device."""

    missing = "No reading of a metric in percent fits what was asked for."

    def __init__(self, metrics_reader: SystemMetricsReader) -> None:
        """Take a reader; `plot` says what to draw."""
        self.reader = metrics_reader
        self.plot()

    def plot(
        self,
        starttime: int = 0,
        endtime: int | None = None,
        select_dimensions: Sequence[str] = (".*",),
        select_events: Sequence[str] = (".*",),
        show_workers: bool = True,
    ) -> MetricsHistogram:
        """Choose what is drawn; times in microseconds since the epoch."""
        self._range = (starttime, endtime)
        self._asked = (select_dimensions, select_events, show_workers)
        return self

    def clear(self) -> None:
        """Draw nothing until `plot` is asked again."""
        self._asked = ((), (), True)

    def figures(self) -> list[Figure]:
        """Return the histograms as data."""
        rows = self.reader.source.readings(*self._range)
        return [
            Figure(
                title=f"{line.dimension} {line.event}",
                kind="bars",
                x=_EDGES.tolist(),
                x_axis=Axis("utilization", "%", top=100.0),
                y_axis=Axis("Occurrences"),
                series=[Series(line.event, [float(n) for n in np.histogram(line.value, bins=_EDGES)[0]])],
            )
            for line in lines(rows, *self._asked)
            if line.percent
        ]
