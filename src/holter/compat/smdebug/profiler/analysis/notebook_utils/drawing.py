"""What smdebug's charts have in common: which series are asked for, and how a notebook shows them."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from holter.analysis.grouping import groups
from holter.analysis.machine.snapshots import TOLERANCE_NS, matrix, moments
from holter.views.wording import natural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray
    from typing_extensions import Self

    from holter.compat.smdebug.profiler.algorithm_metrics_reader import AlgorithmMetricsReader
    from holter.compat.smdebug.profiler.system_metrics_reader import SystemMetricsReader
    from holter.schema.table import Table
    from holter.views.figure import Figure

TOTAL = "total"
_MOST_STRETCHES = 300
_SHARES = (
    "CPUUtilization",
    "GPUUtilization",
    "I/OWaitPercentage",
    "GPUMemoryUtilization",
    "MemoryUsedPercent",
)


class Line(NamedTuple):
    """Readings of one device, or the mean of all: `time` in microseconds since the epoch."""

    dimension: str
    event: str
    time: NDArray[np.int64]
    value: NDArray[np.float64]

    @property
    def percent(self) -> bool:
        """Whether values are percent of all there is."""
        return any(share in f"{self.dimension} {self.event}" for share in _SHARES)


class Charts:
    """Charts that a notebook shows, and that `to_html` writes: no server, no script, no request."""

    missing = "There is nothing to draw."
    reader: SystemMetricsReader | AlgorithmMetricsReader
    _range: tuple[int, int | None] = (0, None)
    """The first and the last moment that is drawn, microseconds since the epoch; None for the newest."""

    def update_data(self, current_timestamp: int) -> Self:
        """Draw up to a later time, with what was recorded meanwhile."""
        self.reader.refresh_event_file_list()
        self._range = (self._range[0], current_timestamp)
        return self

    def figures(self) -> list[Figure]:
        """Return the charts as data."""
        raise NotImplementedError

    def to_html(self) -> str:
        """Return the charts as HTML, to look at in any browser."""
        from holter.drawing.figure import figure, style
        from holter.drawing.markup import tag

        drawn = [figure(one) for one in self.figures()]
        if not drawn:
            return escape(self.missing)
        return style(".holter") + tag("div", *drawn, class_="charts holter")

    def _repr_html_(self) -> str:
        return self.to_html()


class Series(NamedTuple):
    """Readings of one device as `analysis.snapshots` takes them, ns."""

    time: NDArray[np.int64]
    value: NDArray[np.float64]


def wanted(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Return what tells whether a name fits one of some regular expressions.

    Raises:
        ValueError: One of them is invalid.
    """
    given = [patterns] if isinstance(patterns, str) else list(patterns)
    compiled = []
    for pattern in given:
        try:
            compiled.append(re.compile(pattern))
        except re.error as error:
            raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
    return lambda name: any(pattern.search(name) for pattern in compiled)


def lines(rows: Table, dimensions: Sequence[str], events: Sequence[str], show_workers: bool) -> list[Line]:
    """Split readings into lines, and add the mean of a dimension's devices where it has several.

    Args:
        rows: Readings, as a source returns them.
        dimensions: Regular expressions, one of which must be found in the name of the dimension.
        events: The same, in the name of the device or of the mean, `total`.
        show_workers: Keep nodes apart.
    """
    of_dimension, of_event = wanted(dimensions), wanted(events)
    found: list[Line] = []
    # Memory and disk have no dimension: their metrics, in units of their own, are one each.
    own_dimension = np.where(rows["dimension"] == "", rows["name"], rows["dimension"])
    nodes = rows["node"] if show_workers else np.full(rows.rows, "", object)
    charts: dict[tuple[str, str], dict[str, Series]] = {}
    for (dimension, node, name), mine in groups(own_dimension, nodes, rows["name"]).items():
        if of_dimension(dimension):
            one = Series(rows["time"][mine] * 1000, rows["value"][mine])
            charts.setdefault((dimension, node), {})[name] = one
    for (dimension, node), named in sorted(charts.items()):
        suffix = f"-nodeid:{node}" if node else ""
        devices = {name: named[name] for name in sorted(named, key=natural)}
        if len(devices) > 1 and dimension not in ("Algorithm", "Platform"):
            devices[TOTAL] = _mean({(node, name): one for name, one in devices.items()}, node)
        found += [
            Line(f"{dimension}{suffix}", name, one.time // 1000, one.value)
            for name, one in devices.items()
            if of_event(name)
        ]
    return found


def _mean(devices: dict[tuple[str, str], Series], node: str) -> Series:
    at = moments(devices, node)
    known = matrix(devices, node, at)
    return Series(at, np.nansum(known, axis=0) / np.maximum(np.isfinite(known).sum(axis=0), 1))


def on_grid(time: NDArray[Any], value: NDArray[Any], edges: NDArray[Any]) -> list[float | None]:
    """Return the mean between each edge and the next; None where there is nothing."""
    bucket = np.clip(np.searchsorted(edges, time, side="right") - 1, 0, len(edges) - 2)
    sums = np.bincount(bucket, value, len(edges) - 1)
    sizes = np.bincount(bucket, minlength=len(edges) - 1)
    return [float(total / size) if size else None for total, size in zip(sums, sizes, strict=True)]


def edges_of(found: Iterable[Line]) -> tuple[NDArray[np.float64], list[float]]:
    """Return the edges of equal stretches of time that hold all readings, microseconds since the epoch.

    Returns also the middles of the stretches, seconds since the first edge.
    """
    times = [line.time for line in found if len(line.time)]
    low, high = (min(int(t[0]) for t in times), max(int(t[-1]) for t in times)) if times else (0, 1)
    count = max(1, min(_MOST_STRETCHES, max((len(t) for t in times), default=1)))
    edges = np.linspace(low, high + 1, count + 1)
    return edges, ((edges[:-1] + edges[1:]) / 2e6 - edges[0] / 1e6).tolist()


def snapshots(rows: Table) -> NDArray[np.int64]:
    """Return when the machine was read: readings within 20 ms are of one moment."""
    times = np.unique(rows["time"])
    return times[np.concatenate([[True], np.diff(times) > TOLERANCE_NS // 1000])] if len(times) else times


def last_points(rows: Table, points: int) -> Table:
    """Keep the last so many moments at which anything was read."""
    times = snapshots(rows)
    return rows if len(times) <= points else rows.where(rows["time"] >= times[-points])
