"""Say which machine a benchmark ran on, since its numbers mean nothing without it."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def described() -> str:
    """Describe processor, cores, memory, load and versions in one line."""
    cores = len(os.sched_getaffinity(0))
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = os.getloadavg()[0]
    try:
        torch = f", torch {version('torch')}"
    except PackageNotFoundError:
        torch = ""
    return (
        f"{_processor()}, {cores} cores, {gib:.0f} GiB, {platform.system()} {platform.release().split('-')[0]}, "
        f"Python {platform.python_version()}{torch}, load {load:.1f} at the end"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
