"""The last values of a number, with the middle and the spread that a few wild ones do not move."""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass, field

import numpy as np

from holter.analysis.steps.spread import spread

SIZE = 128
"""So many values tell what is usual."""


@dataclass(slots=True)
class History:
    """Holds a list that belongs to a rule's state, and its values in their order."""

    values: list[float]
    size: int = SIZE
    _ordered: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self._ordered = sorted(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def add(self, value: float) -> None:
        """Take a finite value in; the oldest goes when there are too many."""
        self.values.append(value)
        bisect.insort(self._ordered, value)
        if len(self.values) > self.size:
            del self._ordered[bisect.bisect_left(self._ordered, self.values.pop(0))]

    def all_are(self, value: float) -> bool:
        """Tell whether it is full of this one value, so that one more changes nothing."""
        return len(self.values) >= self.size and self._ordered[0] == value == self._ordered[-1]

    def clear(self) -> None:
        """Forget all."""
        self.values.clear()
        self._ordered.clear()

    @property
    def least(self) -> float:
        """The smallest value; raises `IndexError` when there is none."""
        return self._ordered[0]

    @property
    def most(self) -> float:
        """The largest value; raises `IndexError` when there is none."""
        return self._ordered[-1]

    @property
    def median(self) -> float:
        """The median; raises `IndexError` when there are no values."""
        half = len(self._ordered) // 2
        low = self._ordered[half - 1] if len(self._ordered) % 2 == 0 else self._ordered[half]
        return low + (self._ordered[half] - low) / 2

    @property
    def mad(self) -> float:
        """The median distance from the median, scaled so that it is sigma for Gaussian values."""
        return spread(np.array(self._ordered), self.median)

    def log_z(self, value: float) -> float:
        """Return how far a value lies above the median in logarithms, in spreads; all are above 0."""
        middle = math.log(self.median)
        return (math.log(value) - middle) / max(spread(np.log(self._ordered), middle), 1e-3)


def periodic(steps: list[int]) -> bool:
    """Tell whether three or more steps come at equal intervals: a schedule does that, chance does not."""
    gaps = np.diff(steps)
    return len(gaps) >= 2 and int(np.ptp(gaps)) <= max(2.0, 0.02 * float(gaps.mean()))
