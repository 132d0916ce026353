"""Draws histograms of durations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.views.figure import Axis, Figure, Series

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BINS = 60


def histogram(
    title: str, values: NDArray[Any], what: str, *, axis: Axis | None = None, note: str = ""
) -> Figure | None:
    """Draw how often each duration (in ms, drawn in the unit that fits, unless the axis says else) occurs.

    Cut off where one of a thousand is longer, if that is more than twice the median. None without any.
    """
    if not len(values):
        return None
    if axis is None:
        values, unit = fitting(values)
        axis = Axis("duration", unit)
    most = max(float(np.percentile(values, 99.9)), 2 * float(np.median(values)))
    kept = values[values <= most]
    beyond = len(values) - len(kept)
    counts, edges = np.histogram(kept, bins=min(_BINS, max(5, len(kept) // 3)))
    median, most_of_all = (
        f"{plain(value)} {axis.unit}".strip() for value in (np.median(values), values.max())
    )
    facts = f"{len(values):,} {what}, median {median}, longest {most_of_all}"
    more = f"Not drawn: {beyond:,} longer." if beyond else ""
    return Figure(
        title=title,
        kind="bars",
        x=edges.tolist(),
        x_axis=axis,
        y_axis=Axis(what),
        series=[Series(what, counts.astype(float).tolist())],
        note=" ".join(filter(None, (f"{facts}.", more, note))),
    )


def fitting(ms: NDArray[Any]) -> tuple[NDArray[Any], str]:
    """Return durations in the unit in which most of them have a short number, and that unit."""
    usual = float(np.median(ms))
    power, unit = (0, "ms") if usual >= 0.1 or usual <= 0 else (3, "µs") if usual >= 1e-4 else (6, "ns")
    return ms * 10.0**power, unit


def plain(value: float) -> str:
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 1000 else f"{value:.3g}"
