"""Chooses the series of a large job that a chart draws: those that differ most from all others."""

from __future__ import annotations

from statistics import fmean, median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holter.views.figure import Series


def outstanding(series: list[Series], most: int, noun: str) -> tuple[list[Series], str]:
    """Return at most `most` series in their order, and a sentence about the rest; empty without a rest.

    A series counts by how far its mean is from the median of all means: a sick machine stays in the chart.
    """
    if len(series) <= most:
        return series, ""
    means = [fmean(known) if (known := [v for v in one.values if v is not None]) else None for one in series]
    middle = median([mean for mean in means if mean is not None] or [0.0])
    distance = [-1.0 if mean is None else abs(mean - middle) for mean in means]
    chosen = sorted(range(len(series)), key=lambda at: -distance[at])[:most]
    rest = len(series) - most
    note = f"The {most} {noun} that differ most from the median are drawn; {rest:,} more are not."
    return [series[at] for at in sorted(chosen)], note
