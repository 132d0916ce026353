"""How often the CPU quota of the control group stopped the job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.agent.collectors import Collector, Machine, Reading, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator


class Cgroup(Collector):
    """Share of scheduling periods in which the quota ran out."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._before: tuple[int, int] | None = None
        if machine.cgroup.throttling() is None:
            raise Unavailable("the control group has no CPU quota, so nothing is throttled")

    def read(self, now: int) -> Iterator[Reading]:
        """Compare with the last reading; no value when no period has passed."""
        before, self._before = self._before, self.machine.cgroup.throttling()
        if before is None or self._before is None:
            return
        periods, throttled = (after - earlier for after, earlier in zip(self._before, before, strict=True))
        if periods > 0 and throttled >= 0:
            yield "", "cgroup.throttled_pct", 100.0 * throttled / periods
