"""Reads the memory of this process, and the free memory of its container or machine."""

from __future__ import annotations

import os
from mmap import PAGESIZE

_GROUPS = (
    ("/sys/fs/cgroup", "memory.max", "memory.current", (b"inactive_file", b"active_file")),
    (
        "/sys/fs/cgroup/memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        (b"total_inactive_file", b"total_active_file"),
    ),
)
"""Where a container sees itself, version 2 and version 1: limit, use, and which of that are files kept."""


def resident() -> int:
    """Return the bytes of memory that this process holds."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * PAGESIZE


def available() -> int:
    """Return the bytes that can be had: of the machine, or of its container when that has fewer."""
    found = [os.sysconf("SC_AVPHYS_PAGES") * PAGESIZE]
    found = [size << 10 for size in _numbers("/proc/meminfo", (b"MemAvailable:",))] or found
    for folder, limit, used, kept in _GROUPS:
        try:
            with open(f"{folder}/{limit}", "rb") as most, open(f"{folder}/{used}", "rb") as now:
                left = int(most.read()) - int(now.read())
            found.append(left + sum(_numbers(f"{folder}/memory.stat", kept)))
        except (OSError, ValueError):  # no such file; no limit, which is the word "max"
            continue
    return max(0, min(found))


def _numbers(path: str, names: tuple[bytes, ...]) -> list[int]:
    try:
        with open(path, "rb") as lines:
            words = [line.split() for line in lines]
    except OSError:
        return []
    return [int(one[1]) for one in words if one[0] in names]
