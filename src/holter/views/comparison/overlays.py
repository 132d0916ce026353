"""Draws several jobs on the same axes, a line for each job.

What a chart needs of one job are its `curves`, which are plain data: they can be kept and put together later.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.steps.warmup import steady
from holter.views.figure import Axis, Figure, Series
from holter.views.figures import draw
from holter.views.figures._buckets import buckets, mean, middles, quantiles
from holter.views.figures.training._scalars import is_wide

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from holter.views.figures._buckets import Values
    from holter.views.reading import Reading

    Curve = dict[str, list[Any]]
    """`x` and `values` of one job; None is a gap."""

_BINS = 40
_SINCE = Axis("time since the start", "s")
_CHARTS = {
    "step_times": ("Step time", Axis("step"), Axis("median of the ranks", "ms")),
    "step_histogram": ("Distribution of step times", Axis("duration", "ms"), Axis("of the steps", "%")),
    "losses": ("Loss", Axis("step"), Axis("loss")),
    "gpu": ("GPU", _SINCE, Axis("busy", "%", top=100.0)),
    "cpu": ("CPU", _SINCE, Axis("busy", "%", top=100.0)),
}
OVERLAYS = tuple(_CHARTS)
"""Names of the charts."""


def missing(name: str) -> str:
    """Say that no job has anything for one of `OVERLAYS`."""
    return f"{_CHARTS[name][0]}: no data in any of these jobs."


def curves(reading: Reading) -> dict[str, Curve]:
    """Return what one job has for each of `OVERLAYS`; those that it has nothing for are left out.

    Of `step_histogram` the curve holds durations in `x`, each standing for as many steps, and no values.
    """
    found = {"step_times": _step_times(reading), "step_histogram": _durations(reading)}
    found["losses"] = _series("losses", reading, lambda all_: max(all_, key=_known))
    for title in ("GPU", "CPU"):
        found[title.lower()] = _series(
            "utilization",
            reading,
            lambda all_, title=title: next((one for one in all_ if one.name == title), None),  # type: ignore[misc]
        )
    return {name: curve for name, curve in found.items() if curve is not None}


def overlay(name: str, of: Mapping[str, Mapping[str, Curve]], width: int) -> Figure | None:
    """Put one chart of several jobs together; None if no job has data for it.

    Args:
        name: One of `OVERLAYS`; another name raises `KeyError`.
        of: What `curves` returned, under the names of the jobs.
        width: Number of points on the x axis.
    """
    if name not in _CHARTS:
        raise KeyError(f"no chart {name!r}; there are: {', '.join(OVERLAYS)}")
    title, x_axis, y_axis = _CHARTS[name]
    mine = {job: told[name] for job, told in of.items() if name in told}
    ends = [x for curve in mine.values() for x in (min(curve["x"]), max(curve["x"]))]
    if not ends:
        return None
    low, high = min(ends), max(ends)
    count = _BINS if name == "step_histogram" else max(1, width)
    high = high if high > low else low + 1.0
    lay = _shares if name == "step_histogram" else _laid
    # Every job keeps its color, whichever charts it is on.
    series = [Series(job, lay(mine[job], low, high, count) if job in mine else [None] * count) for job in of]
    if name == "losses":
        known = np.array([value for one in series for value in one.values if value is not None])
        y_axis = replace(y_axis, log=is_wide(known))
    return Figure(
        title=title, kind="lines", x=middles(low, high, count), x_axis=x_axis, y_axis=y_axis, series=series
    )


def _step_times(reading: Reading) -> Curve | None:
    steps = reading.steps
    if not steps.rows:
        return None
    first, last = int(steps["step"].min()), int(steps["step"].max()) + 1
    count = max(1, min(reading.width, last - first))
    (middle,) = quantiles(buckets(steps["step"], first, last, count), steps["duration"] / 1e6, count, (0.5,))
    return {"x": middles(first, last, count), "values": middle}


def _durations(reading: Reading) -> Curve | None:
    steps = reading.steps
    times = steps["duration"][steady(steps)] / 1e6 if steps.rows else np.empty(0)
    if not len(times):
        return None
    # A few longest steps would press all others into one bin.
    return {"x": np.quantile(times, np.linspace(0.0, 0.995, 1000)).tolist(), "values": []}


def _series(name: str, reading: Reading, pick: Callable[[Sequence[Series]], Series | None]) -> Curve | None:
    drawn = draw(name, reading)
    if isinstance(drawn, str) or not drawn.series:
        return None
    if drawn.kind == "constants":  # a line all the same, for jobs in which it changes
        return {"x": _ends(reading), "values": drawn.series[0].values * 2}
    one = pick(drawn.series)
    return None if one is None or not _known(one) else {"x": drawn.x, "values": one.values}


def _ends(reading: Reading) -> list[int]:
    """Return the first and the last step of a job, behind each other in any case."""
    steps = reading.steps["step"]
    first, last = (int(steps.min()), int(steps.max())) if len(steps) else (0, 0)
    return [first, max(last, first + 1)]


def _known(of: Series) -> int:
    return sum(value is not None for value in of.values)


def _laid(curve: Curve, low: float, high: float, count: int) -> Values:
    """Lay a curve out over stretches that jobs share; one that has no point of it takes the nearest."""
    x = np.array(curve["x"], float)
    values = np.array([np.nan if value is None else value for value in curve["values"]], float)
    found = mean(buckets(x, low, high, count), values, count)
    near = (x[-1] - x[0]) / max(len(x) - 1, 1) * 0.75
    for at, place in enumerate(middles(low, high, count)):
        next_ = int(np.argmin(np.abs(x - place)))
        if found[at] is None and abs(x[next_] - place) <= near and not np.isnan(values[next_]):
            found[at] = float(values[next_])
    return found


def _shares(curve: Curve, low: float, high: float, count: int) -> Values:
    """Return in percent how many steps lie in each stretch."""
    counts, _ = np.histogram(curve["x"], bins=count, range=(low, high))
    return [float(value) for value in 100.0 * counts / max(len(curve["x"]), 1)]
