"""A chart as data: axes, series and marks, without pixels."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal["lines", "stacked", "bars", "heatmap", "boxes", "shares", "stretches", "constants"]


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis shows. Of `time` the values are seconds since the job's start."""

    label: str
    unit: str = ""
    log: bool = False
    linear: float | None = None
    """With a value the axis is linear from its negative to it, and logarithmic beyond (symlog)."""
    top: float | None = None
    """Where the axis ends, when that is known beforehand, as 100 %."""


@dataclass(frozen=True, slots=True)
class Series:
    """One line, area, row of bars or row of cells; a value that is None is a gap."""

    name: str
    values: list[float | None]
    low: list[float | None] | None = None
    """With `high`: the band around a line, as the least and the greatest value behind each."""
    high: list[float | None] | None = None
    key: str = ""
    """What it stands for, where charts share a color for it: a part of a step."""
    joined: bool = False
    """Whether a line continues over a gap, because the values are logged at some steps only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One chart.

    `lines`, `stacked`: `x` are positions, one for each value. `bars`: `x` are labels, or the edges of a
    histogram, one more than values. `heatmap`: a row for each series. `boxes`: each series holds least,
    lower quartile, median, upper quartile and greatest of what it names. `shares`: parts of a whole, `x` are
    their names. `stretches`: what went on when, in rows; `x` are the two ends of the axis, and a series holds
    in `values` the row (its place in `rows`), in `low` the begin and in `high` the end of each stretch.
    `constants`: numbers that never change: each series has one value, and `x` is empty.
    """

    title: str
    kind: Kind
    x: list[Any]
    x_axis: Axis
    y_axis: Axis
    series: list[Series]
    note: str = ""
    """What a reader must know to read it right."""
    labels: list[str] | None = None
    """Short forms of the names in `x`, for narrow places."""
    rows: list[str] | None = None
    """Names of the rows of `stretches`."""
    broken: list[tuple[float, float]] | None = None
    """Of `lines`: stretches, begin and end, in which values are not finite, which no line can show."""
    flag: str = ""
    """What is said at the first of these stretches, such as `NaN from step 150`."""

    def to_json(self) -> dict[str, Any]:
        """Return the figure as JSON can hold it."""
        return asdict(self)


def shares(
    title: str, parts: Mapping[str, float], axis: Axis, *, note: str = "", labels: list[str] | None = None
) -> Figure:
    """Draw parts of a whole."""
    return Figure(
        title=title,
        kind="shares",
        x=list(parts),
        x_axis=Axis("part"),
        y_axis=axis,
        series=[Series(axis.label, list(parts.values()))],
        note=note,
        labels=labels,
    )
