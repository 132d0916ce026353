"""Draws the largest kernels and the rest as parts of a whole, for charts of accelerators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from holter.analysis.device.kernel_statistics import OTHERS, kernel_table
from holter.views.document.profiled import HOW
from holter.views.figure import Axis, Figure, shares
from holter.views.wording import plain_kernels

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.schema.table import Table
    from holter.views.reading import Reading

NOTHING = f"No kernel was recorded. {HOW}"
SECTORS = 15
MOST_SECTORS = 100


def profiled(reading: Reading, rank: int | None = None, device: int | None = None) -> dict[str, Table]:
    """Return the tables of windows and traces within the window; an unknown rank raises `ValueError`."""
    within = None if reading.window is None else (reading.since, reading.until)
    return reading.profiled.narrowed(rank, device, within)


def kernels(by: Literal["time", "launches"], *, rest: bool) -> Callable[..., Figure | None]:
    """Return a chart of the kernels that take longest or are launched most.

    With `rest` the other kernels are one part. The chart raises `ValueError` if `most` is out of range, or if
    there is no such rank or device.
    """

    def draw(
        reading: Reading, *, most: int | None = None, rank: int | None = None, device: int | None = None
    ) -> Figure | None:
        most = SECTORS if most is None else most
        if not 1 <= most <= MOST_SECTORS:
            raise ValueError(f"most is {most}; valid: 1 to {MOST_SECTORS}")
        tables = profiled(reading, rank, device)
        if not tables["kernels"].rows:
            return None
        found = kernel_table(tables, by=by, most=most)
        values = found["total_ns"] / 1e9 if by == "time" else found["launches"].astype(float)
        parts = dict(zip(map(str, found["name"]), values.tolist(), strict=True))
        if not rest and len(parts) > most:
            parts.pop(OTHERS, None)
        which = "all kernels" if rest else f"the {len(parts)} kernels with most {by}"
        return shares(
            f"{by.capitalize()} of {which}",
            parts,
            Axis(by, "s" if by == "time" else ""),
            note=f"Percent of the {by} of {'all kernels' if rest else 'these kernels'}.",
            labels=plain_kernels(list(parts)),
        )

    return draw
