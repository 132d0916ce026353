"""`Heatmap`: how busy every device was over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.compat.smdebug.profiler.analysis.notebook_utils.drawing import (
    Charts,
    Line,
    edges_of,
    last_points,
    lines,
    on_grid,
    wanted,
)
from holter.compat.smdebug.profiler.system_metrics_reader import SystemMetricsReader
from holter.views.figure import Axis, Figure, Series

if TYPE_CHECKING:
    from collections.abc import Sequence

_POINTS = 1000


class Heatmap(Charts):
    """A row for each device of each node, and for their means; 0 to 100 %."""

    missing = "No reading fits what was asked for."

    def __init__(
        self,
        metrics_reader: SystemMetricsReader,
        *readers: Any,
        select_metrics: Sequence[str] = (),
        starttime: int = 0,
        endtime: int | None = None,
        select_dimensions: Sequence[str] = (".*CPU", ".*GPU"),
        select_events: Sequence[str] = (".*",),
        plot_height: int = 350,
        show_workers: bool = True,
    ) -> None:
        """Take a reader of system metrics; one of framework metrics may follow it, and says nothing.

        Args:
            metrics_reader: Reads system metrics.
            readers: Not used.
            select_metrics: Regular expressions for whole names of rows; all by default.
            starttime: Microseconds since the epoch.
            endtime: The same; the newest by default.
            select_dimensions: Regular expressions for dimensions.
            select_events: Regular expressions for devices, and for their mean, `total`.
            plot_height: Without meaning here: rows have their own height.
            show_workers: Keep nodes apart.

        Raises:
            TypeError: The first is no reader of system metrics.
        """
        if not isinstance(metrics_reader, SystemMetricsReader):
            raise TypeError(f"a reader of system metrics is needed, not a {type(metrics_reader).__name__}")
        self.reader = metrics_reader
        self.select_metrics = list(select_metrics)
        self._range = (starttime, endtime)
        self._asked = (select_dimensions, select_events, show_workers)

    def figures(self) -> list[Figure]:
        """Return the heatmap as data."""
        rows = last_points(self.reader.source.readings(*self._range), _POINTS)
        found = {f"{line.dimension}_{line.event}": line for line in lines(rows, *self._asked)}
        if self.select_metrics:
            fits = wanted(self.select_metrics)
            found = {name: line for name, line in found.items() if fits(name)}
        if not found:
            return []
        edges, seconds = edges_of(found.values())
        return [
            Figure(
                title="System metrics",
                kind="heatmap",
                x=seconds,
                x_axis=Axis("time since the first reading", "s"),
                y_axis=Axis("utilization", "%", top=100.0),
                series=[Series(name, on_grid(*_scaled(line), edges)) for name, line in found.items()],
                note=_NOTE if any(not line.percent for line in found.values()) else "",
            )
        ]


_NOTE = "Rates, which have no 100 %, are shown in percent of their own maximum."


def _scaled(line: Line) -> tuple[Any, Any]:
    most = 100.0 if line.percent else float(np.max(line.value, initial=0.0))
    return line.time, line.value * (100.0 / most) if most else line.value
