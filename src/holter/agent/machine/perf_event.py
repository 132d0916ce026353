"""Reads hardware and kernel counters with the system call perf_event_open."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from typing import NamedTuple

from holter.agent.machine.procfs import PROC, file_text

_CALL = {"x86_64": 298, "aarch64": 241}
"""Number of the system call, by machine."""
_ATTRIBUTE = struct.Struct("=IIQQQQQIIQ")
"""`struct perf_event_attr` in its first version, 64 bytes, which every kernel takes."""
_TIMES, _GROUP = 0b11, 0b1000
"""Read with the times that counters were wanted and were counting; the whole group at once."""
_CLOSE_ON_EXEC = 8
HARDWARE, CACHE = 0, 3


class HardwareCounter(NamedTuple):
    """What is counted, by the kernel's numbers."""

    type: int
    config: int


CYCLES = HardwareCounter(HARDWARE, 0)
INSTRUCTIONS = HardwareCounter(HARDWARE, 1)
CACHE_MISSES = HardwareCounter(HARDWARE, 3)
REFERENCE_CYCLES = HardwareCounter(HARDWARE, 9)
ITLB_MISSES = HardwareCounter(CACHE, 4 | 1 << 16)


class Refused(OSError):  # noqa: N818 - an answer, not a fault
    """The kernel does not open a counter; the text says why."""


class Group:
    """Counters of one core that count at the same time, and are read at once."""

    def __init__(self, cpu: int) -> None:
        self._cpu = cpu
        self._descriptors: list[int] = []

    def add(self, event: HardwareCounter) -> None:
        """Count one more event, of all processes on this core, in the kernel too. Raises `Refused`."""
        leader = self._descriptors[0] if self._descriptors else -1
        self._descriptors.append(_open(event, self._cpu, leader))

    def read(self) -> list[float] | None:
        """Return the counts so far in the order of `add`; None when they were never counting.

        Counts are scaled to the whole time, because counters take turns where the processor has too few.
        """
        size = 8 * (3 + len(self._descriptors))
        words = struct.unpack(f"={size // 8}Q", os.read(self._descriptors[0], size))
        wanted, counting = words[1:3]
        return [value * wanted / counting for value in words[3:]] if counting else None

    def close(self) -> None:
        """Stop counting."""
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()


def _open(event: HardwareCounter, cpu: int, leader: int) -> int:
    number = _CALL.get(platform.machine())
    if number is None:
        raise Refused(errno.ENOSYS, f"no counters are read on {platform.machine()}")
    attribute = _ATTRIBUTE.pack(event.type, _ATTRIBUTE.size, event.config, 0, 0, _TIMES | _GROUP, 0, 0, 0, 0)
    call = ctypes.CDLL(None, use_errno=True).syscall
    found: int = call(
        ctypes.c_long(number), attribute, ctypes.c_long(-1), ctypes.c_long(cpu), ctypes.c_long(leader),
        ctypes.c_ulong(_CLOSE_ON_EXEC),
    )  # fmt: skip
    if found < 0:
        code = ctypes.get_errno()
        raise Refused(code, _why(code))
    return found


def _why(code: int) -> str:
    if code in (errno.EACCES, errno.EPERM):
        paranoid = file_text(PROC / "sys/kernel/perf_event_paranoid") or "unknown"
        return (
            f"the kernel does not allow it: kernel.perf_event_paranoid is {paranoid}, 0 or the capability"
            " CAP_PERFMON is needed, and in a container a seccomp profile that lets it pass"
        )
    if code in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP):
        return "this processor has no such counter, or the virtual machine hides it"
    if code == errno.ENOSYS:
        return "this kernel has no performance events"
    return os.strerror(code)
