"""One statistic of some tensors over the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.verdict.evidence import capitalized
from holter.views.figure import Axis, Figure, Series
from holter.views.figures.tensors._statistics import IN_PARTS, NOTHING, chosen_names, named, over_steps
from holter.views.tensors import statistic as statistic_of

if TYPE_CHECKING:
    from holter.views.reading import Reading

MISSING = f"{NOTHING} {IN_PARTS}"
MOST = 8


def draw(
    reading: Reading,
    *,
    tensor: str | None = None,
    statistic: str | None = None,
    rank: int | None = None,
    mode: str | None = None,
) -> Figure | None:
    """Draw a line for each tensor and mode; `tensor` holds names, one a line."""
    of = statistic_of(statistic or "abs_mean")
    names = chosen_names(reading, tensor, MOST)
    if not names:
        return None
    x, found, ranks = over_steps(reading, of, named(names), rank=rank, mode=mode, by_mode=True)
    if not found:
        return None
    first = next(iter(found))[1]
    return Figure(
        title=capitalized(of.label),
        kind="lines",
        x=x,
        x_axis=Axis("step"),
        y_axis=Axis(of.label, of.unit, log=of.log and any(v and v > 0 for vs in found.values() for v in vs)),
        series=[
            Series(
                name if its in ("train", "global", first) else f"{name} ({its})", _drawn(column, log=of.log)
            )
            for (name, its), column in found.items()
        ],
        note=ranks,
    )


def _drawn(column: list[float | None], *, log: bool) -> list[float | None]:
    return [value if value is not None and (value > 0 or not log) else None for value in column]
