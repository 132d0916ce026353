"""Read all collectors at a steady interval, from a thread of its own."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from holter.schema.metrics import INTERVALS_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from holter.agent.collectors import Collector
    from holter.agent.drain.clock import Clock

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
        self.rounds = 0
        self.missed = 0
        """Rounds left out because the one before took too long or the machine was too busy."""
        self.dropped = 0
        """Readings that were dropped because they waited too long."""
        self.cost_ns = 0
        """CPU time of this thread."""
        self._clock = clock
        self._interval_ms = check_interval(interval_ms)
        self._on_fault = on_fault
        self._max_waiting = max_waiting
        self._waiting: deque[tuple[int, list[tuple[str, str, float]]]] = deque()
        self._count = 0
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._over = False
        self._on = True
        self._stale = False

    @property
    def interval_ms(self) -> int:
        """Time between rounds, in milliseconds; may be set while it runs."""
        return self._interval_ms

    @interval_ms.setter
    def interval_ms(self, value: int) -> None:
        self._interval_ms = check_interval(value)
        self._wake.set()

    def obey(self, control: Mapping[str, Any]) -> dict[str, Any]:
        """Follow what `control.json` says of `interval_ms` and `monitoring`; return what that changed."""
        changed: dict[str, Any] = {}
        wanted, on = control.get("interval_ms"), control.get("monitoring")
        if type(wanted) is int and wanted in INTERVALS_MS and wanted != self._interval_ms:
            self.interval_ms = changed["interval_ms"] = wanted
        if isinstance(on, bool) and on != self._on:
            self._on = changed["monitoring"] = on
        return changed

    def run(self) -> None:
        """Take rounds until `stop`, on a grid of the monotonic clock, so that lateness does not add up."""
        begin, step = time.monotonic_ns(), self._interval_ms
        number = 0
        while not self._over:
            self.round(time.monotonic_ns())
            if step != self._interval_ms:
                begin, step, number = time.monotonic_ns(), self._interval_ms, 0
            due = (time.monotonic_ns() - begin) // (step * 1_000_000) + 1
            self.missed += max(0, due - number - 1)
            number = due
            rest = (begin + number * step * 1_000_000 - time.monotonic_ns()) / 1e9
            while rest > 0 and not self._over and step == self._interval_ms:
                self._wake.wait(rest)
                self._wake.clear()
                rest = (begin + number * step * 1_000_000 - time.monotonic_ns()) / 1e9

    def stop(self) -> None:
        """End `run` soon."""
        self._over = True
        self._wake.set()

    def round(self, now: int) -> None:
        """Read every collector once; one that fails is switched off and said, the others go on."""
        if not self._on:
            self._stale = True
            return
        before = time.thread_time_ns()
        readings: list[tuple[str, str, float]] = []
        for collector in list(self.collectors):
            try:
                readings.extend(collector.read(now))
            except Exception as error:
                self.collectors.remove(collector)
                self._on_fault(f"collector {type(collector).__module__.rpartition('.')[2]}", error)
        if self._stale:  # rates would be those of all the time that nobody was to look
            self._stale = False
            return
        with self._lock:
            self._waiting.append((now + self._clock.offset, readings))
            self._count += len(readings)
            while self._count > self._max_waiting:
                _, lost = self._waiting.popleft()
                self._count -= len(lost)
                self.dropped += len(lost)
        self.rounds += 1
        self.cost_ns += time.thread_time_ns() - before

    def take(self) -> dict[str, list[Any]]:
        """Return what was read since, as columns of the table `samples`."""
        with self._lock:
            rounds, self._waiting, self._count = self._waiting, deque(), 0
        columns: dict[str, list[Any]] = {"time": [], "device": [], "metric": [], "value": []}
        for when, readings in rounds:
            columns["time"] += [when] * len(readings)
            columns["device"] += [reading[0] for reading in readings]
            columns["metric"] += [reading[1] for reading in readings]
            columns["value"] += [reading[2] for reading in readings]
        return columns
