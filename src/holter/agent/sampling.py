"""Read all collectors at a steady interval, from a thread of its own."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from holter.schema.metrics import INTERVALS_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holter.agent.collectors import Collector
    from holter.agent.drain.clock import Clock
    from holter.store.documents import Document

MAX_WAITING = 400_000
"""Most readings that wait; beyond it the oldest rounds are dropped and counted."""


def check_interval(interval_ms: int) -> int:
    """Return the interval when it is a valid one; raises `ValueError` that names the valid ones."""
    if interval_ms not in INTERVALS_MS:
        valid = ", ".join(f"{i} ms" if i < 1000 else f"{i // 1000} s" for i in INTERVALS_MS)
        raise ValueError(f"interval {interval_ms} ms is not possible; valid are: {valid}")
    return interval_ms


class Sampler:
    """Takes rounds of readings; all readings of a round have one time."""

    def __init__(
        self,
        collectors: Sequence[Collector],
        clock: Clock,
        interval_ms: int,
        *,
        on_fault: Callable[[str, Exception], None],
        max_waiting: int = MAX_WAITING,
    ) -> None:
        self.collectors = list(collectors)
        self.dropped = 0
        """Readings that were dropped because they waited too long."""
        self._clock = clock
        self.interval_ms = check_interval(interval_ms)
        """Time between rounds, in milliseconds."""
        self._on_fault = on_fault
        self._max_waiting = max_waiting
        self._waiting: deque[tuple[int, list[tuple[str, str, float]]]] = deque()
        self._count = 0
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._over = False
        self._on = True
        self._stale = False

    def obey(self, control: Document) -> dict[str, int]:
        """Follow `interval_ms` and `monitoring` in `control.json`; return the changed ones."""
        changed: dict[str, int] = {}
        wanted, on = control.get("interval_ms"), control.get("monitoring")
        if type(wanted) is int and wanted in INTERVALS_MS and wanted != self.interval_ms:
            self.interval_ms = changed["interval_ms"] = wanted
            self._wake.set()
        if isinstance(on, bool) and on != self._on:
            self._on = changed["monitoring"] = on
        return changed

    def run(self) -> None:
        """Take rounds until `stop`, on a grid of the monotonic clock, so that lateness does not add up."""
        begin, step = time.monotonic_ns(), self.interval_ms
        while not self._over:
            self.round(time.monotonic_ns())
            if step != self.interval_ms:
                begin, step = time.monotonic_ns(), self.interval_ms
            step_ns = step * 1_000_000
            due = begin + ((time.monotonic_ns() - begin) // step_ns + 1) * step_ns
            while (rest := due - time.monotonic_ns()) > 0 and not self._over and step == self.interval_ms:
                self._wake.wait(rest / 1e9)
                self._wake.clear()

    def stop(self) -> None:
        """End `run` soon."""
        self._over = True
        self._wake.set()

    def round(self, now: int) -> None:
        """Read every collector once; a collector that fails is reported and switched off."""
        if not self._on:
            self._stale = True
            return
        readings: list[tuple[str, str, float]] = []
        for collector in list(self.collectors):
            try:
                readings.extend(collector.read(now))
            except Exception as error:
                self.collectors.remove(collector)
                self._on_fault(f"collector {type(collector).__module__.rpartition('.')[2]}", error)
        if self._stale:  # the rates would cover the whole pause
            self._stale = False
            return
        with self._lock:
            self._waiting.append((now + self._clock.offset, readings))
            self._count += len(readings)
            while self._count > self._max_waiting:
                _, lost = self._waiting.popleft()
                self._count -= len(lost)
                self.dropped += len(lost)

    def take(self) -> dict[str, list[Any]]:
        """Return the new readings as columns of the table `samples`."""
        with self._lock:
            rounds, self._waiting, self._count = self._waiting, deque(), 0
        rows = [(when, *reading) for when, readings in rounds for reading in readings]
        names = ("time", "device", "metric", "value")
        return {name: [row[at] for row in rows] for at, name in enumerate(names)}
