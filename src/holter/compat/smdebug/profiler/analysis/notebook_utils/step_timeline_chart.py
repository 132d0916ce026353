"""`StepTimelineChart`: how long steps took, one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holter.compat.smdebug.profiler.analysis.notebook_utils.drawing import Charts
from holter.compat.smdebug.profiler.readers import step_of
from holter.views.figure import Axis, Figure, Series

if TYPE_CHECKING:
    from holter.compat.smdebug.profiler.algorithm_metrics_reader import AlgorithmMetricsReader
    from holter.schema.table import Table

STEP = "Step:ModeKeys"


class StepTimelineChart(Charts):
    """Durations of steps over time, a line for each kind of step and worker."""

    missing = "No step was recorded."

    def __init__(self, metrics_reader: AlgorithmMetricsReader, width: int = 1000) -> None:
        """Take a reader of framework metrics; `width` is how many of the last steps are shown."""
        self.reader = metrics_reader
        self.width = width

    def figures(self) -> list[Figure]:
        """Return the chart as data."""
        rows = self.reader.source.events(*self._range)
        steps = steps_of(rows)
        numbers = sorted({number for mine in steps.values() for number in mine})[-self.width :]
        if not numbers:
            return []
        return [
            Figure(
                title="Steps",
                kind="lines",
                x=numbers,
                x_axis=Axis("step"),
                y_axis=Axis("duration", "ms"),
                series=[Series(name, [mine.get(n) for n in numbers]) for name, mine in steps.items()],
            )
        ]


def steps_of(rows: Table) -> dict[str, dict[int, float]]:
    """Return step → duration in ms, for each phase of steps and each worker."""
    found: dict[str, dict[int, float]] = {}
    columns: list[Any] = [rows[name].tolist() for name in ("phase", "node", "start", "end", "args")]
    for phase, node, start, end, args in zip(*columns, strict=True):
        if phase.startswith(STEP) and (number := step_of(args)) is not None:
            found.setdefault(f"{phase}-nodeid:{node}", {})[number] = (end - start) / 1000
    return found
