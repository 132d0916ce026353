"""Finds where a series changes its level, with moving sums at several scales and robust scales of the noise.

The method is the moving sum of Eichinger and Kirch, "A MOSUM procedure for the estimation of multiple random
change points", Bernoulli 24 (2018), pp. 526-564. Small windows come first, as in the multiple filter test of
Messer et al., Annals of Applied Statistics 8 (2014), pp. 2027-2067. Outliers are clipped, as Fearnhead and
Rigaill propose in "Changepoint Detection in the Presence of Outliers", JASA 114 (2019), pp. 169-183.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.steps.spread import median, spread

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Values = NDArray[np.float64]

WINDOWS = (20, 80, 320, 1280)
"""Numbers of values whose mean is compared with the mean of as many values before."""
_LIMIT = 6.0
"""Deviations from which a difference of means is a change: about one in 10^9 for Gaussian values."""
_LIMIT_SHORT = 10.0
"""The limit where the series is too short to show how much the means of windows vary."""
_LONG = 20
"""A series of so many windows shows how much their means vary, however values depend on each other."""
_CLIP = 4.0
"""Values count at most this number of deviations beside the median."""
_BLOCK = 10
_LOWER_QUARTILE = 0.3186
"""The lower quartile of the absolute value of a standard Gaussian variable."""
_BASE = 100
"""The level before a rise is that of at least so many values, or of a third of a short series."""
_EARLY_BASE = WINDOWS[0]
_EARLY_RELATIVE = 0.2
_EARLY_LASTS = 3
"""An early rise has fewer values before it. It is larger, and lasts for this multiple of them."""


@dataclass(frozen=True, slots=True)
class Rise:
    """A part of a series whose level is higher than before."""

    start: int
    """The first value of the part."""
    end: int
    """The value after the last one; the length of the series where the rise lasts."""
    base: int
    """The first of the values, up to `start`, that show the level before."""
    before: float
    after: float
    """The medians before and in the part."""


def rises(
    values: Values,
    *,
    min_relative: float = 0.05,
    early: Callable[[Rise], bool] = lambda rise: False,
) -> list[Rise]:
    """Return the parts of a series with a higher level than before, in order; short ones are outliers.

    Args:
        values: The series, finite, shape (n,).
        min_relative: Levels that differ by a smaller share are the same.
        early: Whether a rise within the first 100 values counts: its level before is that of at least 20.
    """
    count = len(values)
    edges = [0, *change_points(values), count]
    found: list[Rise] = []
    base, level, start = 0, math.inf, -1
    for first, last in itertools.pairwise(edges):
        now = median(values[first:last]) if last > first else level
        if now > level * (1 + min_relative):
            if start < 0 and not _counts(Rise(first, last, base, level, now), count, early):
                base, level = first, now
            elif start < 0:
                start = first
            continue
        if start >= 0:
            found.append(Rise(start, first, base, level, median(values[start:first])))
            base, start = first, -1
        elif now < level / (1 + min_relative):
            base = first
        level = min(level, now) if base != first else now
    if start >= 0:
        found.append(Rise(start, count, base, level, median(values[start:])))
    return found


def _counts(rise: Rise, count: int, early: Callable[[Rise], bool]) -> bool:
    """Return whether the values before a rise show a level."""
    before = rise.start - rise.base
    if before >= min(_BASE, count // 3):
        return True
    lasts = rise.end - rise.start >= _EARLY_LASTS * before
    higher = rise.after > rise.before * (1 + _EARLY_RELATIVE)
    return before >= _EARLY_BASE and rise.start < _BASE and lasts and higher and early(rise)


def change_points(values: Values) -> list[int]:
    """Return the indices at which a series changes its level, in order.

    A change that lasts for 20 values is found from three deviations on, a longer one from fewer.
    """
    count = len(values)
    if count < 2 * WINDOWS[0]:
        return []
    middle = median(values)
    limit = _CLIP * spread(values, middle)
    clipped = np.clip(values, middle - limit, middle + limit) - middle if limit > 0 else values - middle
    sums = np.concatenate([[0.0], np.cumsum(clipped)])
    noise = max(_noise(clipped, sums), 1e-3 * abs(middle), 1e-12)
    found: list[int] = []
    for window in WINDOWS:
        if count < 2 * window:
            break
        found += [at for at in _of_scale(sums, window, noise) if all(abs(at - one) > window for one in found)]
    return _placed(sums, sorted(found), count)


def _noise(values: Values, sums: Values) -> float:
    """Return the deviation of values around their level, more where neighbors depend on each other."""
    # Differences of neighbors, and of neighboring blocks, hold almost nothing of the changes.
    blocks = np.diff(sums[::_BLOCK]) / _BLOCK
    alike = spread(np.diff(blocks), 0.0) * math.sqrt(_BLOCK) if len(blocks) > 1 else 0.0
    return max(float(np.std(np.diff(values))), alike) / math.sqrt(2)


def _of_scale(sums: Values, window: int, noise: float) -> list[int]:
    """Return where the mean of the next values differs most from the mean of the last ones."""
    means = (sums[window:] - sums[:-window]) / window
    differences = np.abs(means[window:] - means[:-window])
    scale, limit = noise * math.sqrt(2 / window), _LIMIT_SHORT
    if len(differences) >= _LONG * window:
        scale, limit = max(scale, float(np.quantile(differences, 0.25)) / _LOWER_QUARTILE), _LIMIT
    high = np.flatnonzero(differences > limit * scale)
    if not len(high):
        return []
    found = []
    for run in np.split(high, np.flatnonzero(np.diff(high) > window // 2) + 1):
        # One change is seen from up to a window away; a bump has a rise and a fall in one run.
        while len(run):
            top = int(run[differences[run].argmax()])
            found.append(top + window)
            run = run[np.abs(run - top) >= window]
    return found


def _placed(sums: Values, found: list[int], count: int) -> list[int]:
    """Move each change to the place that splits the values between its neighbors best, by least squares."""
    placed: list[int] = []
    for number, at in enumerate(found):
        low = placed[-1] if placed else 0
        high = found[number + 1] if number + 1 < len(found) else count
        low, high = max(low, at - 2 * WINDOWS[-1]), min(high, at + 2 * WINDOWS[-1])
        splits = np.arange(low + 1, high)
        left, right = splits - low, high - splits
        gain = (sums[splits] - sums[low]) ** 2 / left + (sums[high] - sums[splits]) ** 2 / right
        near = np.abs(splits - at) <= WINDOWS[0]
        gain = np.where(near, gain, -math.inf)
        placed.append(int(splits[gain.argmax()]) if len(splits) and near.any() else at)
    return placed
