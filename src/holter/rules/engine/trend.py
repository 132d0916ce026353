"""Robust trends: whether a series rises, and how fast, without the influence of outliers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.steps.spread import median

if TYPE_CHECKING:
    from numpy.typing import NDArray


def mann_kendall(values: NDArray[np.float64]) -> float:
    """Return the z of the rank test for a trend; above 4 a rise is significant. 0 for fewer than 3 values."""
    n = len(values)
    if n < 3:
        return 0.0
    first, second = np.triu_indices(n, k=1)
    score = float(np.sign(values[second] - values[first]).sum())
    deviation = math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    return (score - math.copysign(1.0, score)) / deviation if score else 0.0


def theil_sen(values: NDArray[np.float64]) -> float:
    """Return the slope per value: the median of all slopes between two. Zero for fewer than 2 values."""
    n = len(values)
    if n < 2:
        return 0.0
    first, second = np.triu_indices(n, k=1)
    return median((values[second] - values[first]) / (second - first))


def rising(values: NDArray[np.float64], *, min_z: float = 4.0) -> float | None:
    """Return the slope per value of a steady rise, or None.

    Both halves must rise with at least 0.3 of the whole slope: the rank test alone accepts a jump as a trend.
    """
    half = len(values) // 2
    slope = theil_sen(values)
    if slope <= 0 or min(theil_sen(values[:half]), theil_sen(values[half:])) < 0.3 * slope:
        return None
    return slope if mann_kendall(values) >= min_z else None
