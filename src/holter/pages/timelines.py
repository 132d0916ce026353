"""Caches the timelines of open pages; a timeline is opened again when its job has grown."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from holter.store.layout import CONTROL
from holter.store.trial import Trial
from holter.views.clocks import aligned
from holter.views.timeline.lanes import Timeline
from holter.views.timeline.reading import SOURCES
from holter.views.timeline.steps import TimelineSteps
from holter.views.timeline.tiles import IN_MEMORY
from holter.views.timeline.values import series

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.store.job import JobFolder
    from holter.views.timeline.reading import Lane
    from holter.views.timeline.values import ValueSeries

T = TypeVar("T")

_KEPT = 3
_TABLES = (*sorted({source.table for source in SOURCES}), "counters", "tracks")
_NEAR_NS = 1 << 52
_WARM_S = 1.5
_REOPEN_S = 20
"""Seconds until a timeline is opened again, for each CPU second that opening took."""


@dataclass
class Opened:
    """An open timeline with the numbers of its lanes and series, valid until it is opened again."""

    timeline: Timeline
    trial: Trial
    origin_ns: int
    """Zero of its times: the job's start, ns since the epoch."""
    version: str
    """Changes with the job's events."""
    stamp: int
    """Changes with any of the job's files."""
    at: float
    cost_s: float
    """CPU time of opening it."""
    numbers: dict[Lane, int] = field(default_factory=dict)

    @property
    def again_s(self) -> float:
        """Seconds until it is worth looking whether the job has grown."""
        return max(0.0, self.at + max(1.0, _REOPEN_S * self.cost_s) - time.monotonic())

    @cached_property
    def series(self) -> list[ValueSeries]:
        """Counters and metrics; the index of each is its number."""
        return series(self.timeline.reading)

    @cached_property
    def steps(self) -> TimelineSteps:
        """The steps."""
        return TimelineSteps.of(self.trial)


class Timelines:
    """Caches the last few timelines. Thread-safe; all methods may block."""

    def __init__(self) -> None:
        self._known: dict[str, Opened] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def of(self, folder: JobFolder, *, warm: bool = True) -> Opened:
        """Return a job's timeline, not much older than the job; a job that is gone raises `OSError`.

        With `warm`, the data for zooming is loaded in the background.
        """
        with self._lock:
            lock = self._locks.setdefault(folder.url, threading.Lock())
        with lock:
            known = self._known.get(folder.url)
            if known is not None and known.again_s > 0:
                return known
            now = time.monotonic()
            stamp = hash(tuple(entry for entry in folder.place.files() if entry.key != CONTROL))
            if known is not None and known.stamp == stamp:
                known.at = now
                return known
            trial = Trial(folder)
            version = "-".join(str(trial.rows(table)) for table in _TABLES)
            if known is not None and known.version == version:
                known.at, known.stamp = now, stamp
                return known
            return self._open(folder, trial, version, stamp, warm)

    def ask(self, folder: JobFolder, question: Callable[[Opened], T]) -> T:
        """Ask a timeline; if a compaction removed its files, open it again and ask once more."""
        opened = self.of(folder)
        try:
            return question(opened)
        except OSError:
            with self._lock:
                if self._known.get(folder.url) is opened:
                    del self._known[folder.url]
            return question(self.of(folder))

    def quick(self, folder: JobFolder) -> bool:
        """Return whether the timeline is open, or small enough to open at once."""
        with self._lock:
            if folder.url in self._known:
                return True
        trial = Trial(folder)
        return sum(trial.rows(table) for table in _TABLES) <= IN_MEMORY

    def _open(self, folder: JobFolder, trial: Trial, version: str, stamp: int, warm: bool) -> Opened:
        began = time.process_time()
        timeline = Timeline(aligned(trial))
        start = int(trial.manifest.get("start") or timeline.start_ns)
        if abs(timeline.start_ns - start) > _NEAR_NS:
            start = timeline.start_ns  # a trace with a clock of its own
        cost = time.process_time() - began
        opened = Opened(timeline, trial, start, version, stamp, time.monotonic(), cost)
        opened.numbers.update({lane: number for number, lane in enumerate(timeline.lanes)})
        with self._lock:
            self._known.pop(folder.url, None)
            self._known[folder.url] = opened
            while len(self._known) > _KEPT:
                self._known.pop(next(iter(self._known)))
        if not warm:
            return opened
        # Data for zooming is loaded after the first picture, which must not wait for it.
        later = threading.Timer(_WARM_S, _warm, (timeline,))
        later.daemon = True
        later.start()
        return opened


def _warm(timeline: Timeline) -> None:
    try:
        timeline.warm()
    except OSError:
        return  # its files are gone: the next question opens it again


TIMELINES = Timelines()
"""The timelines of this process."""
