"""Draws the largest kernels and the rest as parts of a whole, for charts of accelerators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from holter.analysis.device.kernel_statistics import OTHERS, kernel_table
from holter.views.document.profiled import HOW
from holter.views.figure import Axis, Figure, Series
from holter.views.wording import plain_kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holter.schema.table import Table
    from holter.views.reading import Reading

NOTHING = f"No kernel was recorded. {HOW}"
SECTORS = 15
MOST_SECTORS = 100


def profiled(reading: Reading, rank: int | None = None, device: int | None = None) -> dict[str, Table]:
    """Return the tables of windows and traces, of what is looked at; raises `ValueError` for no such rank."""
    within = None if reading.window is None else (reading.since, reading.until)
    return reading.profiled.narrowed(rank, device, within)


def kernels(
    reading: Reading,
    by: Literal["time", "launches"],
    *,
    most: int | None,
    rest: bool,
    rank: int | None,
    device: int | None,
) -> Figure | None:
    """Draw the `most` kernels that take longest or are launched most, and as one part the rest.

    Raises:
        ValueError: `most` is out of range, or there is no such rank or device.
    """
    most = SECTORS if most is None else most
    if not 1 <= most <= MOST_SECTORS:
        raise ValueError(f"most is {most}; valid: 1 to {MOST_SECTORS}")
    tables = profiled(reading, rank, device)
    if not tables["kernels"].rows:
        return None
    found = kernel_table(tables, by=by, most=most)
    names = [str(name) for name in found["name"].tolist()]
    values = found["total_ns"] / 1e9 if by == "time" else found["launches"].astype(float)
    if not rest and len(names) > most and names[-1] == OTHERS:
        names, values = names[:-1], values[:-1]
    what = ("Time of", "time") if by == "time" else ("Launches of", "launches")
    which = "all kernels" if rest else f"the {len(names)} kernels with most {what[1]}"
    return shares(
        f"{what[0]} {which}", names, values.tolist(), Axis(what[1], "s" if by == "time" else ""),
        note=f"Percent of the {what[1]} of {'all kernels' if rest else 'these kernels'}.",
        labels=[plain_kernel(name) for name in names],
    )  # fmt: skip


def shares(
    title: str,
    names: Sequence[str],
    values: Sequence[float],
    axis: Axis,
    *,
    note: str = "",
    labels: list[str] | None = None,
) -> Figure:
    """Draw parts of a whole."""
    return Figure(
        title=title,
        kind="shares",
        x=list(names),
        x_axis=Axis("part"),
        y_axis=axis,
        series=[Series(axis.label, list(values))],
        note=note,
        labels=labels,
    )
