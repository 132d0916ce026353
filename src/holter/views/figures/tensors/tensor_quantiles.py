"""Quantiles of one tensor's elements over the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.views.figure import Axis, Figure, Series
from holter.views.figures.tensors._statistics import IN_PARTS, NOTHING, chosen_names, named, over_steps
from holter.views.tensors import STATISTICS

if TYPE_CHECKING:
    from holter.views.reading import Reading

MISSING = f"{NOTHING} {IN_PARTS}"
_RARE = " Quantiles were saved at fewer steps, and are not drawn: `:each` saves them with every row."

_PARTS = " Quantiles of parts do not join, and are not drawn: ask for one rank to see those of its part."


def draw(
    reading: Reading, *, tensor: str | None = None, rank: int | None = None, mode: str | None = None
) -> Figure | None:
    """Draw median and mean, the band of nine tenths of the elements, and that of all of them."""
    names = chosen_names(reading, tensor, 1)
    if not names:
        return None
    (name,) = names
    found: dict[str, list[float | None]] = {}
    x: list[float] = []
    ranks = ""
    for which in ("min", "q05", "q50", "q95", "max", "mean"):
        steps, columns, said = over_steps(reading, STATISTICS[which], named([name]), rank=rank, mode=mode)
        if columns:
            x = steps if len(steps) > len(x) else x
            found[which] = next(iter(columns.values()))
            ranks = said
    whole = {which: column for which, column in found.items() if len(column) == len(x)}
    bands = (
        ("q50", "median; nine tenths of the elements", "q05", "q95"),
        ("mean", "mean; all elements", "min", "max"),
    )
    series = [
        Series(said, whole[middle], *((whole[low], whole[high]) if {low, high} <= whole.keys() else ()))
        for middle, said, low, high in bands
        if middle in whole
    ]
    if not series:
        return None
    return Figure(
        title=f"Elements of {name}",
        kind="lines",
        x=x,
        x_axis=Axis("step"),
        y_axis=Axis("value"),
        series=series,
        note="Elements that are not finite are left out."
        + (_RARE if "q50" in found and "q50" not in whole else "")
        + (f" {ranks}" if ranks else "")
        + (_PARTS if "joined" in ranks else ""),
    )
