"""Robust measures of spread, which a few extreme values do not change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def median(values: NDArray[Any]) -> float:
    """Return the median of values, at least one; NaN if one of them is NaN."""
    return float(np.median(values))


def quantile(values: NDArray[Any], share: float) -> float:
    """Return the value below which `share` (0 to 1) of the values lie, interpolated; NaN if one is NaN."""
    return float(np.quantile(values, share))


def spread(values: NDArray[Any], middle: float) -> float:
    """Return 1.4826 x the median distance of values, at least one, from their middle; NaN if one is NaN.

    For Gaussian values it is their standard deviation: 1.4826 = 1 / 0.6745, its third quartile.
    """
    return 1.4826 * median(np.abs(values - middle))
