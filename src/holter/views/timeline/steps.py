"""Reads the steps that mark a timeline, thinned to those that fit on the screen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holter.views.tables import steps_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.store.trial import Trial


@dataclass(frozen=True, slots=True)
class TimelineSteps:
    """The steps of the lowest rank that has any, by begin."""

    step: NDArray[np.int64]
    time: NDArray[np.int64]
    """Begin, ns since the epoch."""
    duration: NDArray[np.int64]
    """ns."""

    @classmethod
    def of(cls, trial: Trial) -> TimelineSteps:
        """Read them."""
        table = steps_of(trial)
        if not table.rows:
            return cls(*(np.empty(0, np.int64) for _ in range(3)))
        mine = np.flatnonzero(table["rank"] == table["rank"].min())
        mine = mine[np.argsort(table["time"][mine], kind="stable")]
        return cls(*(table[name][mine].astype(np.int64) for name in ("step", "time", "duration")))

    def within(self, start_ns: int, end_ns: int, most: int) -> TimelineSteps:
        """Return those that reach into a range; of more than `most` only each second, fifth, tenth, ..."""
        first = int(np.searchsorted(self.time + self.duration, start_ns, side="right"))
        last = int(np.searchsorted(self.time, end_ns))
        some = slice(first, last)
        step, time, duration = self.step[some], self.time[some], self.duration[some]
        round_numbers = (digit * 10**power for power in range(10) for digit in (1, 2, 5))
        every = next(n for n in round_numbers if -(-len(step) // n) <= most)
        kept = step % every == 0
        return TimelineSteps(step[kept], time[kept], duration[kept])
