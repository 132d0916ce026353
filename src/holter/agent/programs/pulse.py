"""Reads counters of one process often, for half a minute now and then, so that repetitions show."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from holter.agent.machine import procfs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from holter.agent.programs.processes import FollowedProcess
    from holter.store.documents import Document

INTERVAL_S = 0.02
BURST_S = 30.0
FIRST_S = 4.0
"""The begin of the first burst; each pause is as long as the job was until then."""
LEAST_S = 5.0
"""A shorter burst shows nothing."""
COST_SHARE = 100
"""Reading takes at most one part in this many of a core."""
MOST_THREADS = 16
"""With more threads the CPU time is read for the whole process, whose clock is coarser."""


class Pulse:
    """Takes bursts in a thread of its own."""

    def __init__(self, busiest: Callable[[], FollowedProcess | None], proc: Path = procfs.PROC) -> None:
        self._busiest = busiest
        self._proc = proc
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="holter-pulse", daemon=True)
        self._found: deque[Document] = deque()

    def begin(self) -> None:
        """Start the thread."""
        self._thread.start()

    def end(self) -> None:
        """End the burst that runs, and keep what it has read."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(2.0)

    def take(self) -> list[Document]:
        """Return the bursts that are complete."""
        found = list(self._found)
        self._found.clear()
        return found

    def _run(self) -> None:
        pause = FIRST_S
        while not self._over.wait(pause):
            process = self._busiest()
            if process is not None:
                read = self._burst(process)
                if read is not None:
                    self._found.append(read)
            pause = max(2 * pause, BURST_S)

    def _burst(self, process: FollowedProcess) -> Document | None:
        readings: list[tuple[int, ...]] = []
        begin, pause = time.monotonic(), INTERVAL_S
        while time.monotonic() - begin < BURST_S:
            began = time.thread_time()
            values = self._read(process.pid)
            if values is None:
                break
            readings.append((time.monotonic_ns(), *values))
            pause = max(INTERVAL_S, (time.thread_time() - began) * COST_SHARE)
            if self._over.wait(pause):
                break
        if len(readings) < 2 or (readings[-1][0] - readings[0][0]) / 1e9 < LEAST_S:
            return None
        return {"pid": process.pid, "name": process.name, **_rates(readings, pause)}

    def _read(self, pid: int) -> tuple[int, ...] | None:
        """Return CPU ns, bytes read and written, page faults, CPU ns of ended children; None at its end."""
        folder = self._proc / str(pid)
        text = procfs.file_text(folder / "stat")
        fields = text[text.rfind(")") + 2 :].split()
        if len(fields) < 16 or fields[0] in "ZXx":
            return None
        tick = 1_000_000_000 // procfs.TICKS
        cpu = (int(fields[11]) + int(fields[12])) * tick
        if int(fields[17]) <= MOST_THREADS:
            try:
                threads = [procfs.scheduled(folder / "task" / name) for name in os.listdir(folder / "task")]
            except OSError:
                return None
            exact = [one.running for one in threads if one is not None]
            cpu = sum(exact) if exact else cpu
        counted = procfs.counters_of(folder / "io")
        read, written = counted.get("rchar", 0), counted.get("wchar", 0)
        return cpu, read, written, int(fields[7]), (int(fields[13]) + int(fields[14])) * tick


def _rates(readings: list[tuple[int, ...]], pause: float) -> Document:
    """Return the growth of each counter in equal intervals; counters that do not grow are left out."""
    columns = np.array(readings, dtype=np.float64).T
    times = columns[0]
    interval = max(int(INTERVAL_S * 1e9), int(pause * 1e9))
    grid = np.arange(times[0], times[-1], interval)
    grown = {
        name: np.diff(np.interp(grid, times, np.maximum.accumulate(column)))
        for name, column in zip(("cpu", "read", "written", "faults", "children"), columns[1:], strict=True)
    }
    return {
        "begin": int(times[0]),
        "interval_ns": interval,
        "grown": {
            name: np.rint(values).astype(int).tolist() for name, values in grown.items() if values.any()
        },
    }
