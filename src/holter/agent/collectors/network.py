"""Bytes over the network: every interface but the loopback, each packet once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.agent.collectors import Collector, Machine, Rate, Reading, Unavailable, read_text

if TYPE_CHECKING:
    from collections.abc import Iterator

_RECEIVED, _SENT = 0, 8


class Network(Collector):
    """Sums `/proc/net/dev`.

    Where there are interfaces with a device behind them only those count: bridges, bonds and virtual
    pairs pass the same packets on. In a container there are only virtual ones, which the job uses.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._in, self._out = Rate(), Rate()
        if not self._counters():
            raise Unavailable("there is no network interface but the loopback")

    def read(self, now: int) -> Iterator[Reading]:
        """Compare with the last reading."""
        counters = self._counters().values()
        received, sent = sum(c[0] for c in counters), sum(c[1] for c in counters)
        if (speed := self._in.per_second(now, received)) is not None:
            yield "", "net.rx", speed
        if (speed := self._out.per_second(now, sent)) is not None:
            yield "", "net.tx", speed

    def _counters(self) -> dict[str, tuple[int, int]]:
        found = {}
        for line in read_text(self.machine.proc / "net" / "dev").splitlines():
            name, colon, rest = line.partition(":")
            words = rest.split()
            if colon and name.strip() != "lo" and len(words) > _SENT:
                found[name.strip()] = (int(words[_RECEIVED]), int(words[_SENT]))
        real = {
            name: value
            for name, value in found.items()
            if (self.machine.sys / "class/net" / name / "device").exists()
        }
        return real or found
