"""Decides which steps the sentinel watches, so that it costs little."""

from __future__ import annotations

DENSE = 64
"""Up to so many steps after the first, powers of two are due."""
EVERY = 100
MOST_EVERY = 100_000
SELDOM = 10
"""Steps that are due, of which one describes inputs and labels, once steps are due every `EVERY`."""
SHARE = 0.001
"""Largest share of the time of steps; the interval grows until the cost is below it."""
_ANEW = 10
"""Optimizers after the first with which the steps that are due begin anew."""


class DueSteps:
    """Steps 0, 1, 2, 4, 8, … 64, and then every 100th, or fewer if they cost too much."""

    def __init__(self) -> None:
        self._interval = EVERY
        self._from, self._anew = 0, _ANEW
        self._begun = 0
        self._last = 0, 0

    def next(self, step: int) -> int:
        """Return the first step from `step` on that is due."""
        after = step - self._from
        if after <= 2:
            return step
        if after <= DENSE:
            return self._from + (1 << (after - 1).bit_length())
        return step + -step % self._interval

    def begin_anew(self, step: int) -> bool:
        """Count from the step after `step` on; return False if that has happened too often or just now."""
        if step <= self._from + DENSE or not self._anew:
            return False
        self._anew -= 1
        self._from = step + 1
        return True

    def describes_data(self, step: int) -> bool:
        """Return whether inputs and labels are described at a step that is due; call it once for each."""
        self._begun += 1
        return step <= self._from + DENSE or self._begun % SELDOM == 1

    def adapt(self, step: int, now: int, spent: int) -> None:
        """Double the interval if the time spent since the last call, ns, exceeds the share of the steps."""
        (last, then), self._last = self._last, (step, now)
        allowed = SHARE * (now - then) * self._interval / max(step - last, 1)
        if step > self._from + DENSE and then and spent > allowed:
            self._interval = min(2 * self._interval, MOST_EVERY)
