"""Corrections of the clocks of nodes, which apply when rows are read."""

from __future__ import annotations

from typing import NamedTuple

_LONGEST_NS = 10**16
"""Four months: as far from `at_ns` as a drift is extrapolated to widen limits of time."""


class ClockCorrection(NamedTuple):
    """How far the clock of one node is ahead of the job's common clock: a line over that node's time."""

    ahead_ns: int
    """At `at_ns`."""
    drift: float
    """Nanoseconds that it gains per nanosecond."""
    at_ns: int
    """A time of this node's clock, ns since the epoch."""

    def sql(self, column: str) -> str:
        """Return the SQL of a corrected time."""
        return (
            f"CAST({column} - {int(self.ahead_ns)} - "
            f"CAST(round({self.drift!r} * ({column} - {int(self.at_ns)})) AS BIGINT) AS BIGINT)"
        )

    @property
    def reach_ns(self) -> int:
        """The most by which it moves a time of a job that lasts up to four months."""
        return abs(int(self.ahead_ns)) + int(abs(self.drift) * _LONGEST_NS) + 1
