"""Robust measures of spread, which a few extreme values do not change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def median(values: NDArray[Any]) -> float:
    """Return the median of values, one at least, as `np.median` says it; NaN among them gives NaN.

    numpy takes ten times as long for so few as rules look at.
    """
    return _middle(np.sort(values))


def quantile(values: NDArray[Any], share: float) -> float:
    """Return what `np.quantile` says: the value below which `share` (0 to 1) of them lie, between two."""
    ordered = np.sort(values)
    at = (len(ordered) - 1) * share
    low = ordered[int(at)]
    high = ordered[min(int(at) + 1, len(ordered) - 1)]
    part = at - int(at)
    # From the nearer one, as numpy rounds.
    between = low + (high - low) * part if part < 0.5 else high - (high - low) * (1 - part)
    return float(between if ordered[-1] == ordered[-1] else ordered[-1])


def spread(values: NDArray[Any], middle: float) -> float:
    """Return 1.4826 x the median distance of values, one at least, from their middle.

    For Gaussian values it is their standard deviation: 1.4826 = 1 / 0.6745, its third quartile. NaN among the
    values gives NaN.
    """
    return 1.4826 * _middle(np.sort(np.abs(values - middle)))


def _middle(ordered: NDArray[Any]) -> float:
    half = len(ordered) // 2
    low = ordered[half if len(ordered) % 2 else half - 1]
    # NaN is sorted last.
    return float((low + ordered[half]) / 2 if ordered[-1] == ordered[-1] else ordered[-1])
