"""Converts the monotonic clock of a node into wall time, with one anchor for all times of the node."""

from __future__ import annotations

import time
from dataclasses import dataclass

_EPOCH_MIN = 10**18
"""Anything larger is wall time already: no machine has been up for thirty years."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Turns monotonic nanoseconds into nanoseconds since the epoch, by one anchor taken once."""

    monotonic: int
    wall: int

    @classmethod
    def now(cls) -> Clock:
        """Take the anchor; of a few tries the one whose two readings lie closest together."""
        tries = []
        for _ in range(5):
            before = time.monotonic_ns()
            wall = time.time_ns()
            after = time.monotonic_ns()
            tries.append((after - before, (before + after) // 2, wall))
        _, monotonic, wall = min(tries)
        return cls(monotonic, wall)

    @property
    def offset(self) -> int:
        """What to add to a monotonic time, in ns."""
        return self.wall - self.monotonic

    def to_wall(self, when: int) -> int:
        """Convert one time; a time that is wall time already stays as it is."""
        return when if when > _EPOCH_MIN else when + self.offset

    def time_ns(self) -> int:
        """Return the time now, ns since the epoch; a wall clock that is set does not move it."""
        return time.monotonic_ns() + self.offset

    def drift(self) -> int:
        """Return how far the wall clock has moved away from the anchor, in ns."""
        return time.time_ns() - self.time_ns()
