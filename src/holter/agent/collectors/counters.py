"""Performance counters of each core: cycles, instructions, misses, where the kernel lets them be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.agent.collectors import Collector, Machine, Reading, Unavailable
from holter.agent.machine import perf_event

if TYPE_CHECKING:
    from collections.abc import Iterator

EVENTS = {
    "cpu.core.cycles": perf_event.CYCLES,
    "cpu.core.instructions": perf_event.INSTRUCTIONS,
    "cpu.core.ref_cycles": perf_event.REFERENCE_CYCLES,
    "cpu.core.cache_misses": perf_event.CACHE_MISSES,
    "cpu.core.itlb_misses": perf_event.ITLB_MISSES,
}


class Counters(Collector):
    """One group of counters a core, so that a reading interrupts each core once."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._names = self._possible(min(machine.cores))
        self._groups: dict[int, perf_event.Group] = {}
        try:
            for core in sorted(machine.cores):
                self._groups[core] = perf_event.Group(core)
                for name in self._names:
                    self._groups[core].add(EVENTS[name])
        except OSError as error:
            self.close()
            raise Unavailable(f"core {core}: {error.strerror}") from None

    def _possible(self, core: int) -> list[str]:
        """Return what can be counted on a core; note what cannot, and why."""
        names = []
        for name, event in EVENTS.items():
            group = perf_event.Group(core)
            try:
                group.add(event)
            except perf_event.Refused as error:
                self.missing.append((name, str(error.strerror)))
            else:
                names.append(name)
            finally:
                group.close()
        if not names:
            raise Unavailable(self.missing[0][1])
        return names

    def read(self, now: int) -> Iterator[Reading]:
        """Read every core's group."""
        for core, group in self._groups.items():
            for name, value in zip(self._names, group.read() or (), strict=False):
                if (rate := self.rate(now, name, value, f"cpu{core}")) is not None:
                    yield f"cpu{core}", name, rate

    def close(self) -> None:
        """Stop counting."""
        for group in self._groups.values():
            group.close()
        self._groups.clear()
