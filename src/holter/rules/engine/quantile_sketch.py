"""A quantile sketch in bounded memory, as JSON can hold it."""

from __future__ import annotations

import bisect
import itertools
import math
import sys
from typing import TYPE_CHECKING, TypedDict

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from holter.rules import Place, SampleSeries, Window

ERROR = 0.005
"""The largest relative error of a quantile."""
_GAMMA = math.log((1 + ERROR) / (1 - ERROR))
_LARGEST = math.log(sys.float_info.max)
_ZERO = -(2**31)
_LEAST = 1e-9
"""Readings below it count as zero."""


class QuantileSketch(TypedDict, total=False):
    """The number of readings, the smallest, the largest, and how many fell into each logarithmic bin."""

    n: int
    min: float
    max: float
    bins: dict[str, int]


def add(sketch: QuantileSketch, values: NDArray[np.float64]) -> None:
    """Count readings; negative ones and those that are not finite are left out."""
    ordered = np.sort(values)
    # Sorting puts NaN last, so the valid values are a contiguous range.
    low, high = ordered.searchsorted(0.0), ordered.searchsorted(math.inf)
    n = int(high - low)
    if not n:
        return
    sketch["n"] = sketch.get("n", 0) + n
    sketch["min"] = min(sketch.get("min", math.inf), float(ordered[low]))
    sketch["max"] = max(sketch.get("max", -math.inf), float(ordered[high - 1]))
    bins = sketch.setdefault("bins", {})
    first = ordered.searchsorted(_LEAST)
    if first > low:
        bins["zero"] = bins.get("zero", 0) + int(first - low)
    if first == high:
        return
    numbers = np.ceil(np.log(ordered[first:high]) / _GAMMA).astype(np.int64)
    begins = [0, *(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist()]
    for at, end in zip(begins, [*begins[1:], len(numbers)], strict=True):
        name = str(numbers[at])
        bins[name] = bins.get(name, 0) + end - at


def remember(
    window: Window, new: Mapping[Place, SampleSeries]
) -> tuple[dict[str, QuantileSketch], dict[str, int]]:
    """Add readings to the sketches in the state; return all sketches and the last times by `node/device`."""
    sketches = window.state.setdefault("sketches", {})
    last = window.state.setdefault("last", {})
    for (node, device), series in new.items():
        add(sketches.setdefault(f"{node}/{device}", {}), series.value)
        last[f"{node}/{device}"] = int(series.time[-1])
    return sketches, last


def statistics(sketch: QuantileSketch) -> dict[str, float]:
    """Return min, p50, p95, p99, max; empty without readings."""
    if not sketch.get("n"):
        return {}
    points = _points(sketch, 50, 95, 99)
    return {"min": round(sketch["min"], 2), **points, "max": round(sketch["max"], 2)}


def box(sketch: QuantileSketch) -> dict[str, float]:
    """Return the values of a box plot: p25, p50, p75, p95 and whiskers of 1.5 boxes; empty without data."""
    if not sketch.get("n"):
        return {}
    points = _points(sketch, 25, 50, 75, 95)
    reach = 1.5 * (points["p75"] - points["p25"])
    upper = min(float(sketch["max"]), points["p75"] + reach)
    lower = max(float(sketch["min"]), points["p25"] - reach)
    return {**points, "upper": round(upper, 2), "lower": round(lower, 2)}


def _points(sketch: QuantileSketch, *percent: int) -> dict[str, float]:
    found = _quantiles(sketch, [q / 100 for q in percent])
    return {f"p{q}": value for q, value in zip(percent, found, strict=True)}


def _quantiles(sketch: QuantileSketch, shares: Sequence[float]) -> list[float]:
    bins = sketch["bins"]
    # The bin of zeros comes first.
    ordered = sorted((_ZERO if name == "zero" else int(name), count) for name, count in bins.items())
    seen = list(itertools.accumulate(count for _, count in ordered))
    found = []
    for share in shares:
        rank = share * (sketch["n"] - 1)
        number = ordered[min(bisect.bisect_right(seen, rank), len(seen) - 1)][0]
        found.append(round(min(max(_value(number), sketch["min"]), sketch["max"]), 2))
    return found


def _value(number: int) -> float:
    """Return the reading that a bin stands for."""
    if number == _ZERO:
        return 0.0
    # The bin of the largest readings ends above the largest number.
    return 2 / (math.exp(_GAMMA) + 1) * math.exp(min(number * _GAMMA, _LARGEST))


def quantile(sketch: QuantileSketch, share: float) -> float | None:
    """Return the reading below which `share` (0 to 1) of all readings lie; None without readings."""
    return _quantiles(sketch, [share])[0] if sketch.get("n") else None


def histogram(sketch: QuantileSketch, bins: int = 100) -> list[int]:
    """Count the readings in equal bins from 0 to the largest; empty without readings."""
    if not sketch.get("n"):
        return []
    counts = [0] * bins
    width = sketch["max"] / bins
    for number, count in sketch["bins"].items():
        value = _value(_ZERO if number == "zero" else int(number))
        counts[min(int(value / width), bins - 1) if width > 0 else 0] += count
    return counts
