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
        self._asked = (starttime, endtime, select_dimensions, select_events, show_workers)
        return self

    def clear(self) -> None:
        """Draw nothing until `plot` is asked again."""
        self._asked = (0, None, (), (), True)

    def update_data(self, current_timestamp: int) -> MetricsHistogram:
        """Draw up to a later time, with what was recorded meanwhile."""
        self.reader.refresh_event_file_list()
        self._asked = (self._asked[0], current_timestamp, *self._asked[2:])
        return self

    def figures(self) -> list[Figure]:
        """Return the histograms as data."""
        start, end, dimensions, events, show_workers = self._asked
        rows = self.reader.source.readings(start, end)
        return [
            Figure(
                title=f"{line.dimension} {line.event}",
                kind="bars",
                x=_EDGES.tolist(),
                x_axis=Axis("utilization", "%", top=100.0),
                y_axis=Axis("Occurrences"),
                series=[Series(line.event, [float(n) for n in np.histogram(line.value, bins=_EDGES)[0]])],
            )
            for line in lines(rows, dimensions, events, show_workers)
            if line.percent
        ]
