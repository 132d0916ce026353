"""Lowers the priority of the agent's threads, and returns freed memory to the system."""

from __future__ import annotations

import ctypes
import os

NICE = 10
_M_ARENA_MAX, _M_MMAP_THRESHOLD = -8, -3


def lower() -> None:
    """Lower the priority; on Linux this holds for the calling thread, and for what it starts."""
    os.setpriority(os.PRIO_PROCESS, 0, max(os.getpriority(os.PRIO_PROCESS, 0), NICE))


def give_memory_back() -> None:
    """Return freed memory to the system at once, where the C library supports it (glibc)."""
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_M_ARENA_MAX, 1)
        library.mallopt(_M_MMAP_THRESHOLD, 65_536)
