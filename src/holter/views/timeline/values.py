"""Computes extremes and means of counters and machine samples for each pixel of a timeline."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.timeline.busy import busy
from holter.store.parquet import queries as parquet
from holter.views.timeline.reading import rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from holter.views.timeline.lanes import Strip, TimelineSlice
    from holter.views.timeline.reading import Arrays, EventTables


@dataclass(frozen=True, slots=True)
class ValueSeries:
    """A counter of a trace, or a metric of a device."""

    node: str
    name: str
    """The counter or the metric."""
    rank: int = -1
    """Rank of a counter."""
    process: int = -1
    device: str = ""
    """Device of a metric."""
    is_metric: bool = False

    @property
    def id(self) -> str:
        """Its name within the job."""
        kind = "metric" if self.is_metric else "counter"
        which = self.device if self.is_metric else f"{self.rank}:{self.process}"
        return f"{kind}:{which}:{self.name}@{self.node}"

    @property
    def where(self) -> str:
        """The SQL condition for its rows."""
        node = f"node = {parquet.literal(self.node)}"
        if self.is_metric:
            same = f"metric = {parquet.literal(self.name)} AND device = {parquet.literal(self.device)}"
        else:
            same = f"name = {parquet.literal(self.name)} AND rank = {self.rank} AND process = {self.process}"
        return f"{node} AND {same}"


@dataclass(frozen=True, slots=True)
class ValueCurve:
    """A series in a range of time, one value for each pixel that has any."""

    series: ValueSeries
    time: NDArray[np.int64]
    """When the first value of each pixel was, ns since the epoch."""
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    mean: NDArray[np.float64]
    before: float | None
    """The last value of a counter before the range: it has it until its next one. Else None."""


def utilization(
    picture: TimelineSlice, *, pixels: int = 1000
) -> dict[tuple[str, int, int], NDArray[np.float64]]:
    """Return by node, rank and device how busy its streams were, in percent of each pixel of a slice.

    What runs on several streams at once counts together, up to 100 (`analysis.timeline_busy`).
    """
    edges = np.linspace(0, picture.end_ns - picture.start_ns, pixels + 1).astype(np.int64) + picture.start_ns
    streams: dict[tuple[str, int, int], list[Strip]] = defaultdict(list)
    for strip in picture.strips:
        if strip.lane.kind == "stream":
            streams[strip.lane.node, strip.lane.rank, strip.lane.device].append(strip)
    shares = {}
    for device, strips in streams.items():
        columns = ("time", "duration", "busy")
        time, duration, worked = (np.concatenate([getattr(s, column) for s in strips]) for column in columns)
        shares[device] = busy(time, duration, worked, edges)
    return shares


def series(reading: EventTables) -> list[ValueSeries]:
    """Return the counters and metrics of a job."""
    counters = "SELECT DISTINCT node, name, rank, process FROM counters ORDER BY ALL"
    metrics = "SELECT DISTINCT node, metric, device FROM samples ORDER BY ALL"
    found = [ValueSeries(*row) for row in rows(reading.ask(counters))]
    listed = rows(reading.ask(metrics))
    return found + [
        ValueSeries(node, metric, device=device, is_metric=True) for node, metric, device in listed
    ]


def curves(
    reading: EventTables, chosen: Sequence[ValueSeries], start_ns: int, end_ns: int, *, pixels: int = 1000
) -> list[ValueCurve]:
    """Return series in a range of time for a number of pixels; they are read all at once.

    An empty range or fewer than one pixel raises `ValueError`.
    """
    if start_ns >= end_ns or pixels < 1:
        raise ValueError(f"the range from {start_ns} to {end_ns} on {pixels} pixels is empty")
    width = max(1, -(-(end_ns - start_ns) // pixels))
    found: dict[int, ValueCurve] = {}
    for is_metric in (False, True):
        places = [place for place, one in enumerate(chosen) if one.is_metric == is_metric]
        if places:
            listed = _listed([chosen[place] for place in places], places)
            found |= _curves(
                reading, chosen, listed, "samples" if is_metric else "counters", start_ns, end_ns, width
            )
    nothing = np.empty(0)
    return [
        found.get(place, ValueCurve(one, nothing.astype(np.int64), nothing, nothing, nothing, None))
        for place, one in enumerate(chosen)
    ]


def _listed(chosen: Sequence[ValueSeries], places: Sequence[int]) -> Arrays:
    """Return series as a table to join with."""
    texts = {field: [getattr(one, field) for one in chosen] for field in ("node", "name", "device")}
    return {
        "place": np.array(places, np.int32),
        **{f"its_{field}": np.array(values, dtype=object) for field, values in texts.items()},
        "its_rank": np.array([one.rank for one in chosen], np.int32),
        "its_process": np.array([one.process for one in chosen], np.int64),
    }


def _curves(
    reading: EventTables,
    chosen: Sequence[ValueSeries],
    listed: Arrays,
    table: str,
    start: int,
    end: int,
    width: int,
) -> dict[int, ValueCurve]:
    """Read those of one table. A reading of a machine stands for its moment: before the range none counts."""
    if table == "samples":
        same = "node = its_node AND metric = its_name AND device = its_device"
    else:
        same = "node = its_node AND name = its_name AND rank = its_rank AND process = its_process"
    values = reading.ask(
        f"SELECT place, (time - {start}) // {width} AS pixel, min(time) AS time, min(value) AS low, "  # noqa: S608
        f"max(value) AS high, avg(value) AS mean FROM {table} JOIN listed ON {same} "
        f"WHERE time >= {start} AND time < {end} AND NOT isnan(value) GROUP BY ALL ORDER BY 1, 2",
        listed=listed,
    )
    before: dict[int, float] = {}
    if table == "counters":
        last = reading.ask(
            f"SELECT place, arg_max(value, time) AS value FROM {table} JOIN listed ON {same} "  # noqa: S608
            f"WHERE time < {start} GROUP BY place",
            listed=listed,
        )
        before = dict(rows(last))
    places = listed["place"].tolist()
    edges = np.searchsorted(values["place"], [*places, places[-1] + 1]).tolist()
    found = {}
    for place, first, last_ in zip(places, edges[:-1], edges[1:], strict=True):
        time, low, high, mean = (values[column][first:last_] for column in ("time", "low", "high", "mean"))
        found[place] = ValueCurve(chosen[place], time, low, high, mean, before.get(place))
    return found
