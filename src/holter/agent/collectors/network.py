"""Bytes over the network: every interface but the loopback, each packet once; and what had to be resent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.agent.collectors import Collector, Machine, Reading, Unavailable, read_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_RECEIVED, _SENT = 0, 8
_MEGABIT = 1_000_000 / 8


class Network(Collector):
    """Sums `/proc/net/dev`.

    Where there are interfaces with a device behind them only those count: bridges, bonds and virtual
    pairs pass the same packets on. In a container there are only virtual ones, which the job uses.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        if not self._counters():
            raise Unavailable("there is no network interface but the loopback")

    def read(self, now: int) -> Iterator[Reading]:
        """Compare with the last reading."""
        counters = self._counters()
        received, sent = sum(c[0] for c in counters.values()), sum(c[1] for c in counters.values())
        tcp = self._tcp()
        segments, again = tcp.get("OutSegs"), tcp.get("RetransSegs")
        yield from self.rates(
            now, {"net.rx": received, "net.tx": sent, "net.segments": segments, "net.retrans": again}
        )
        if (carried := self._link_speed(counters)) is not None:
            yield "", "net.link_speed", carried

    def _link_speed(self, names: Iterable[str]) -> float | None:
        """Return bytes per second of all interfaces together; None when one does not say, as virtual ones."""
        total = 0.0
        for name in names:
            try:
                megabits = int((self.machine.sys / "class/net" / name / "speed").read_text())
            except (OSError, ValueError):  # the kernel answers "invalid argument" for a link that is down
                megabits = 0
            if megabits <= 0:
                return None
            total += megabits * _MEGABIT
        return total or None

    def _tcp(self) -> dict[str, int]:
        """Return the counters of TCP; nothing where the kernel does not tell them."""
        try:
            lines = read_text(self.machine.proc / "net" / "snmp").splitlines()
        except Unavailable:
            return {}
        names, numbers = ([line.split()[1:] for line in lines if line.startswith("Tcp:")] + [[], []])[:2]
        return {name: int(number) for name, number in zip(names, numbers, strict=False)}

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
