"""`TimelineCharts`: the machine over time, and what the training did meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.grouping import sums
from holter.compat.smdebug.profiler.analysis.notebook_utils.drawing import (
    Charts,
    edges_of,
    last_points,
    lines,
    on_grid,
    snapshots,
)
from holter.compat.smdebug.profiler.analysis.notebook_utils.gantt import Gantt
from holter.compat.smdebug.profiler.readers import step_of
from holter.views.figure import Axis, Figure, Series

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from holter.compat.smdebug.profiler.algorithm_metrics_reader import AlgorithmMetricsReader
    from holter.compat.smdebug.profiler.system_metrics_reader import SystemMetricsReader


class TimelineCharts(Charts):
    """A chart for each dimension, a line for each device, all of one stretch of time."""

    missing = "No reading fits what was asked for."

    def __init__(
        self,
        system_metrics_reader: SystemMetricsReader,
        framework_metrics_reader: AlgorithmMetricsReader | None = None,
        starttime: int = 0,
        endtime: int | None = None,
        select_dimensions: Sequence[str] = (".*",),
        select_events: Sequence[str] = (".*",),
        x: int = 1000,
        show_workers: bool = True,
    ) -> None:
        """Choose what is drawn.

        Args:
            system_metrics_reader: Reads system metrics.
            framework_metrics_reader: Reads events, for what ran at some points.
            starttime: Microseconds since the epoch.
            endtime: The same; the newest by default.
            select_dimensions: Regular expressions for dimensions.
            select_events: Regular expressions for devices, and for their mean, `total`.
            x: How many of the last moments are shown.
            show_workers: Keep nodes apart.
        """
        self.reader = self.system_metrics_reader = system_metrics_reader
        self.framework_metrics_reader = framework_metrics_reader
        self.x = x
        self._range = (starttime, endtime)
        self._asked = (select_dimensions, select_events, show_workers)

    @property
    def times(self) -> NDArray[np.int64]:
        """The moments that are shown, by which parts are chosen: microseconds since the epoch."""
        return snapshots(last_points(self.system_metrics_reader.source.readings(*self._range), self.x))

    def figures(self) -> list[Figure]:
        """Return the charts as data."""
        rows = last_points(self.system_metrics_reader.source.readings(*self._range), self.x)
        found = lines(rows, *self._asked)
        edges, seconds = edges_of(found)
        return [
            Figure(
                title=dimension or "rates",
                kind="lines",
                x=seconds,
                x_axis=Axis("time since the first reading", "s"),
                y_axis=Axis("used", "%", top=102.0) if mine[0].percent else Axis("rate", "1/s"),
                series=[Series(line.event, on_grid(line.time, line.value, edges)) for line in mine],
            )
            for dimension in dict.fromkeys(line.dimension for line in found)
            if (mine := [line for line in found if line.dimension == dimension])
        ]

    def find_time_annotations(self, indexes: Sequence[int]) -> dict[str, int]:
        """Print what ran between two of `times`, by their positions; returns microseconds by event and step.

        Raises:
            ValueError: There is no reader of events, or there are no such moments.
        """
        reader, start, end = self._between(indexes)
        rows = reader.source.events(start, end)
        names = [
            name if (step := step_of(args)) is None else f"{name} step {step}"
            for name, args in zip(rows["name"].tolist(), rows["args"].tolist(), strict=True)
        ]
        found = sums(names, (rows["end"] - rows["start"]).tolist())
        for name, took in found.items():
            print(f"{name}: {took} µs")
        if not found:
            print(f"no event between {start} and {end} µs")
        return found

    def plot_detailed_profiler_data(self, indexes: Sequence[int]) -> Gantt:
        """Return what ran between two of `times`: data loaders by thread, all else by phase.

        Raises:
            ValueError: There is no reader of events, or there are no such moments.
        """
        reader, start, end = self._between(indexes)
        return Gantt(reader.source.events(start, end), start, end)

    def _between(self, indexes: Sequence[int]) -> tuple[AlgorithmMetricsReader, int, int]:
        if self.framework_metrics_reader is None:
            raise ValueError("a reader of framework metrics is needed to tell what ran")
        times = self.times
        if len(indexes) != 2 or not 0 <= indexes[0] <= indexes[1] < len(times):
            raise ValueError(f"{list(indexes)}: expected two positions in order, 0 to {len(times) - 1}")
        return self.framework_metrics_reader, int(times[indexes[0]]), int(times[indexes[1]])
