"""How far values lie around their middle, told so that a few wild ones do not move it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def spread(values: NDArray[Any], middle: float) -> float:
    """Return 1.4826 x the median distance of values, one at least, from their middle.

    For Gaussian values it is their standard deviation: 1.4826 = 1 / 0.6745, its third quartile. NaN among the
    values gives NaN.
    """
    away = np.sort(np.abs(values - middle))
    half = len(away) // 2
    # What np.median says, which takes ten times as long for so few values; NaN is sorted last.
    low = away[half if len(away) % 2 else half - 1]
    return 1.4826 * float((low + away[half]) / 2 if away[-1] == away[-1] else away[-1])
