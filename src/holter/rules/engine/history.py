"""The last values of a number, with their median and median absolute deviation."""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass, field

import numpy as np

from holter.analysis.steps.spread import spread

SIZE = 128
"""The number of values that describe what is usual."""


@dataclass(slots=True)
class History:
    """A bounded list in a rule's state, which is also kept sorted."""

    values: list[float]
    size: int = SIZE
    _ordered: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self._ordered = sorted(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def add(self, value: float) -> None:
        """Add a finite value; remove the oldest one when there are too many."""
        self.values.append(value)
        bisect.insort(self._ordered, value)
        if len(self.values) > self.size:
            del self._ordered[bisect.bisect_left(self._ordered, self.values.pop(0))]

    def all_are(self, value: float) -> bool:
        """Return whether it is full of this one value, so that adding the value again changes nothing."""
        return len(self.values) >= self.size and self._ordered[0] == value == self._ordered[-1]

    def clear(self) -> None:
        """Remove all values."""
        self.values.clear()
        self._ordered.clear()

    @property
    def least(self) -> float:
        """The smallest value; raises `IndexError` when there are no values."""
        return self._ordered[0]

    @property
    def most(self) -> float:
        """The largest value; raises `IndexError` when there are no values."""
        return self._ordered[-1]

    @property
    def median(self) -> float:
        """The median; raises `IndexError` when there are no values."""
        half = len(self._ordered) // 2
        low = self._ordered[half - 1] if len(self._ordered) % 2 == 0 else self._ordered[half]
        return low + (self._ordered[half] - low) / 2

    @property
    def mad(self) -> float:
        """The median absolute deviation, scaled so that it equals sigma for Gaussian values."""
        return spread(np.array(self._ordered), self.median)

    def log_z(self, value: float) -> float:
        """Return the deviations by which a logarithm lies above the median; all values are above 0."""
        middle = math.log(self.median)
        return (math.log(value) - middle) / max(spread(np.log(self._ordered), middle), 1e-3)


def periodic(steps: list[int]) -> bool:
    """Return whether three or more steps come at equal intervals, which shows a schedule."""
    gaps = np.diff(steps)
    return len(gaps) >= 2 and int(np.ptp(gaps)) <= max(2.0, 0.02 * float(gaps.mean()))
