"""The machine that a benchmark runs on, in words, and the commands that it starts there, bare or recorded."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HERE = Path(__file__).parent


def described() -> str:
    """Describe processor, cores, memory, load and versions in one line."""
    cores = len(os.sched_getaffinity(0))
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = os.getloadavg()[0]
    try:
        torch = f", torch {version('torch')}"
    except PackageNotFoundError:
        torch = ""
    kernel = f"{platform.system()} {platform.release().split('-')[0]}"
    python = f"Python {platform.python_version()}{torch}"
    return f"{_processor()}, {cores} cores, {gib:.0f} GiB, {kernel}, {python}, load {load:.1f} at the end"


def pace() -> float:
    """Return the least CPU milliseconds of five runs of a fixed loop.

    A shared machine may run at half its speed for minutes while nothing else is seen to run: a figure in
    seconds means something beside this one only.
    """
    taken = []
    for _ in range(5):
        began, numbers = time.process_time(), dict[str, int]()
        for i in range(200_000):
            numbers[str(i % 1000)] = numbers.get(str(i % 997), 0) + i
        taken.append(time.process_time() - began)
    return 1e3 * min(taken)


def environment() -> dict[str, str]:
    """Return the environment of a command that finds this source tree and computes on one thread."""
    path = os.pathsep.join(filter(None, [str(HERE.parent / "src"), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


def last_line(command: list[str], options: list[str] | None) -> str:
    """Run a command, bare or under `holter run` with these options; return the last line that it prints."""
    with tempfile.TemporaryDirectory() as store:
        if options is not None:
            command = [sys.executable, "-m", "holter", "run", "--store", store, *options, "--", *command]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment())
    return done.stdout.strip().splitlines()[-1]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
