"""Operations and bytes of the machine's disks, and the space left for the store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holter.agent.collectors import Collector, Machine, Reading, Unavailable, read_text

if TYPE_CHECKING:
    from collections.abc import Iterator

_SECTOR = 512
"""`/proc/diskstats` counts in these, whatever the disk's own sectors are."""
_NOT_DISKS = ("loop", "ram", "zram", "sr", "fd")
_READS, _READ_SECTORS, _READ_MS, _WRITES, _WRITTEN_SECTORS, _WRITE_MS = 3, 5, 6, 7, 9, 10


class Disk(Collector):
    """Sums over whole disks; a volume built on other disks is counted there, not twice."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        if not self._counters():
            why = "no disk is listed in /proc/diskstats"
            self.missing.append(("disk.iops, disk.read_bytes, disk.write_bytes, disk.await", why))
            if machine.store is None:
                raise Unavailable(why)
        if machine.store is None:
            self.missing.append(("disk.free, disk.free_pct", "the store is not on a disk of this machine"))

    def read(self, now: int) -> Iterator[Reading]:
        """Compare with the last reading."""
        disks = self._counters()
        if disks:
            sums = [sum(column) for column in zip(*disks.values(), strict=True)]
            operations, waited = self.rate(now, "disk.iops", sums[0]), self.rate(now, "disk.await", sums[3])
            if operations is not None:
                yield "", "disk.iops", operations
            yield from self.rates(
                now, {"disk.read_bytes": sums[1] * _SECTOR, "disk.write_bytes": sums[2] * _SECTOR}
            )
            if operations and waited is not None:
                yield "", "disk.await", waited / operations
        if self.machine.store is not None:
            space = os.statvfs(self.machine.store)
            if space.f_blocks:
                yield "", "disk.free_pct", 100.0 * space.f_bavail / space.f_blocks
                yield "", "disk.free", float(space.f_bavail * space.f_frsize)

    def _counters(self) -> dict[str, tuple[int, int, int, int]]:
        """Return (operations, sectors read, sectors written, ms they took) of each disk."""
        found = {}
        for line in read_text(self.machine.proc / "diskstats").splitlines():
            words = line.split()
            if len(words) > _WRITE_MS and self._is_disk(words[2]):
                operations = int(words[_READS]) + int(words[_WRITES])
                waited = int(words[_READ_MS]) + int(words[_WRITE_MS])
                sectors = int(words[_READ_SECTORS]), int(words[_WRITTEN_SECTORS])
                found[words[2]] = (operations, *sectors, waited)
        return found

    def _is_disk(self, name: str) -> bool:
        if name.startswith(_NOT_DISKS):
            return False
        folder = self.machine.sys / "block" / name.replace("/", "!")
        if not folder.is_dir():  # a partition, or /sys is not there at all
            return not (self.machine.sys / "block").is_dir() and not name[-1].isdigit()
        slaves = folder / "slaves"
        return not (slaves.is_dir() and any(slaves.iterdir()))
