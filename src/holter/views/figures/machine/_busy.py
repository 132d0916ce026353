"""Draws CPU and GPU utilization: the share of readings above 0, and the mean of each node over time."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from holter.views.figure import Axis, Figure
from holter.views.figures._buckets import over_time
from holter.views.figures.device._shares import shares
from holter.views.figures.machine._metrics import of_rows

if TYPE_CHECKING:
    from holter.views.reading import Reading

NO_CPU = "No CPU was sampled: traces of other profilers have no such samples, `holter run` records them."
NO_GPU = (
    "No work of a GPU was recorded. `holter doctor` says what can be measured on this machine, and why "
    "not the rest."
)


def readings(reading: Reading, title: str, metrics: tuple[str, ...], where: str = "true") -> Figure | None:
    """Draw how many readings of some metrics were above 0, and how many were not."""
    asked = ", ".join(f"'{metric}'" for metric in metrics)
    table = reading.trial.sql(
        "SELECT count(*) FILTER (value > 0) AS active, count(*) AS readings "  # noqa: S608
        f"FROM samples WHERE metric IN ({asked}) AND NOT isnan(value) AND {where} {inside(reading)}",
        **reading.bounds,
    )
    count, active = int(table["readings"][0]), int(table["active"][0])
    if not count:
        return None
    return shares(
        title,
        ["active", "idle"],
        [active, count - active],
        Axis("readings"),
        note="Active: readings above 0 %. A sample tells that anything ran, not how much.",
    )


def inside(reading: Reading) -> str:
    """Return the SQL that keeps what began in the window, after other conditions."""
    return "" if reading.window is None else f"AND time >= {reading.since} AND time < {reading.until}"


def by_node(reading: Reading, title: str, metrics: tuple[str, ...], where: str = "true") -> Figure | None:
    """Draw the mean of some metrics over the devices of each node, and the range of single readings."""
    rows = over_time(reading, metrics, "node", where=where)
    if not rows:
        return None
    nodes = [(node, list(group)) for node, group in groupby(rows, lambda row: str(row["series"]))]
    note = "Mean of each node; the band holds every single reading."
    return of_rows(reading, title, nodes, Axis("busy", "%", top=100.0), note=note)
