"""Pressure stall information: how often tasks wait for a CPU, for input or output, for memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.agent.collectors import Collector, Machine, Reading, Unavailable, read_text

if TYPE_CHECKING:
    from collections.abc import Iterator

_FILES = {"cpu": "psi.cpu", "io": "psi.io", "memory": "psi.mem"}


class Pressure(Collector):
    """Reads the 10-second averages the kernel keeps itself."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._files = {}
        for name, metric in _FILES.items():
            try:
                _average(read_text(machine.proc / "pressure" / name))
            except (Unavailable, OSError, ValueError) as error:
                self.missing.append((metric, f"the kernel gives no pressure information: {error}"))
            else:
                self._files[machine.proc / "pressure" / name] = metric
        if not self._files:
            raise Unavailable("the kernel gives no pressure information (CONFIG_PSI, or psi=1 at boot)")

    def read(self, now: int) -> Iterator[Reading]:
        """Read the averages."""
        for path, metric in self._files.items():
            yield "", metric, _average(read_text(path))


def _average(text: str) -> float:
    """Return `avg10` of the line `some`."""
    for line in text.splitlines():
        words = dict(word.partition("=")[::2] for word in line.split())
        if line.startswith("some") and "avg10" in words:
            return float(words["avg10"])
    raise ValueError("no line 'some avg10=…'")
