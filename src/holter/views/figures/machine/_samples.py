"""Draws samples of the machine over time: a line of means for each series, in a band of all readings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from holter.store.parquet.queries import literals
from holter.views.figure import Axis, Figure, Series, shares
from holter.views.figures._buckets import Bucket, line, over_seconds, over_time
from holter.views.figures._outstanding import outstanding

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holter.views.reading import Reading

_RATES = (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3), ("B/s", 1.0))
BUSY = Axis("busy", "%", top=100.0)
MOST_NODES = 16
"""Lines that can still be told apart."""
NO_CPU = "No CPU was sampled: traces of other profilers have no such samples, `holter run` records them."
NO_GPU = (
    "No work of a GPU was recorded. `holter doctor` says what can be measured on this machine, and why "
    "not the rest."
)
NO_GPU_SEEN = (
    "No GPU was seen. `holter doctor` says what can be measured on this machine, and why not the rest."
)


def readings(reading: Reading, title: str, metric: str, where: str = "true") -> Figure | None:
    """Draw the mean of all readings of a percentage, and the rest of the time."""
    table = reading.trial.sql(
        "SELECT avg(value) AS busy, count(*) AS readings FROM samples "  # noqa: S608
        f"WHERE metric = '{metric}' AND NOT isnan(value) AND {where} AND {reading.inside}",
        **reading.bounds,
    )
    if not int(table["readings"][0]):
        return None
    busy = float(table["busy"][0])
    return shares(
        title,
        {"active": busy, "idle": max(100.0 - busy, 0.0)},
        Axis("of the time", "%"),
        note="Mean of all readings and devices.",
    )


def by_node(reading: Reading, title: str, metric: str, where: str = "true") -> Figure | None:
    """Draw the mean of a metric over the devices of each node, and the range of single readings."""
    series = [line(reading, *found) for found in over_time(reading, [metric], "node", where=where).items()]
    series, rest = outstanding(series, MOST_NODES, "nodes")
    note = f"Mean of each node; the band holds every single reading. {rest}".strip()
    return over_seconds(reading, title, BUSY, series, note) if series else None


def metrics_chart(
    title: str, names: Mapping[str, str], axis: Axis, *, note: str = ""
) -> Callable[[Reading], Figure | None]:
    """Return a chart of named metrics over time: the mean of all nodes, with the range of all readings.

    An axis of `B/s` gets the unit that the largest reading needs, such as `MB/s`.
    """

    def draw(reading: Reading) -> Figure | None:
        found = over_time(reading, names, "metric")
        if axis.unit == "B/s":
            return _rates(reading, found)
        series = [line(reading, name, found[metric]) for metric, name in names.items() if metric in found]
        return over_seconds(reading, title, axis, series, note) if series else None

    def _rates(reading: Reading, found: dict[str, list[Bucket]]) -> Figure | None:
        most = max((row.high for rows in found.values() for row in rows), default=0.0)
        if found and not most:  # a number says it as well as an empty chart
            still = [Series(name, [0.0]) for metric, name in names.items() if metric in found]
            return Figure(title=title, kind="constants", x=[], x_axis=Axis("time"), y_axis=axis, series=still)
        unit, factor = next(((u, f) for u, f in _RATES if most >= f), _RATES[-1])
        scaled = {
            metric: [Bucket(row.at, *(value / factor for value in row[1:])) for row in rows]
            for metric, rows in found.items()
        }
        series = [line(reading, name, scaled[metric]) for metric, name in names.items() if metric in scaled]
        return over_seconds(reading, title, replace(axis, unit=unit), series, note) if series else None

    return draw


def devices_chart(
    title: str, metric: str, *, all_of: str, label: str = "busy"
) -> Callable[[Reading], Figure | None]:
    """Return a chart of the mean of a percentage over all devices, and of the reading's `devices`."""

    def draw(reading: Reading) -> Figure | None:
        found = over_time(reading, [metric], "metric")
        if not found:
            return None
        series = [line(reading, f"mean of {all_of}", found[metric])]
        if reading.devices:
            where = f"device IN ({literals(reading.devices)})"
            mine = over_time(reading, [metric], "device", where=where)
            series += [line(reading, *device, banded=False) for device in mine.items()]
        note = "The band holds every single reading." if len(series) == 1 else ""
        return over_seconds(reading, title, Axis(label, "%", top=100.0), series, note)

    return draw
