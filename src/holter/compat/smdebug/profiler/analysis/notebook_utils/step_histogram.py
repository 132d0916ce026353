"""`StepHistogram`: how durations of steps and passes are spread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.compat.smdebug.profiler.analysis.notebook_utils.drawing import Charts, wanted
from holter.views.figure import Axis, Figure, Series

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from holter.compat.smdebug.profiler.algorithm_metrics_reader import AlgorithmMetricsReader

_DEFAULT = ("Step:ModeKeys", "Forward-node", r"Backward\(post-forward\)-node")
_BINS = 50


class StepHistogram(Charts):
    """A histogram for each phase: 50 bins from the shortest to two standard deviations above the median."""

    missing = "No event fits what was asked for."

    def __init__(self, metrics_reader: AlgorithmMetricsReader, width: int = 500) -> None:
        """Take a reader of framework metrics; `plot` says what to draw, `width` means nothing here."""
        self.reader = metrics_reader
        self.plot()

    def plot(
        self,
        starttime: int = 0,
        endtime: int | None = None,
        select_metrics: Sequence[str] = _DEFAULT,
        show_workers: bool = True,
    ) -> StepHistogram:
        """Choose what is drawn.

        Args:
            starttime: Microseconds since the epoch.
            endtime: The same; the newest by default.
            select_metrics: Regular expressions for `<phase>-nodeid:<node>`.
            show_workers: Keep nodes apart.
        """
        self._range = (starttime, endtime)
        self._asked = (select_metrics, show_workers)
        return self

    def figures(self) -> list[Figure]:
        """Return the histograms as data."""
        metrics, show_workers = self._asked
        fits = wanted(metrics)
        rows = self.reader.source.events(*self._range)
        found: dict[str, list[int]] = {}
        took = (rows["end"] - rows["start"]).tolist()
        for phase, node, microseconds in zip(
            rows["phase"].tolist(), rows["node"].tolist(), took, strict=True
        ):
            name = f"{phase}-nodeid:{node}"
            if fits(name):
                found.setdefault(name if show_workers else phase, []).append(microseconds)
        return [_histogram(name, np.array(values) / 1000) for name, values in found.items()]


def _histogram(name: str, values: NDArray[Any]) -> Figure:
    high = float(np.median(values) + 2 * values.std())
    inside = values[values <= high]
    counts, edges = np.histogram(inside, bins=_BINS)
    beyond = len(values) - len(inside)
    return Figure(
        title=name,
        kind="bars",
        x=edges.tolist(),
        x_axis=Axis("duration", "ms"),
        y_axis=Axis("Occurrences"),
        series=[Series(name, [float(count) for count in counts])],
        note=f"{beyond:,} longer ones lie to the right of it." if beyond else "",
    )
