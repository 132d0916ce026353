"""Caches one state of a job and the answers about it."""

from __future__ import annotations

import gzip
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from holter.store.trial import Trial
from holter.views.document import description_kept
from holter.views.heatmap import Heatmap
from holter.views.jobs import RUNNING
from holter.views.reading import Reading
from holter.views.tables import is_long

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holter.store.job import JobFolder
    from holter.views.document.types import Description

_MOST_ANSWERS = 64
_SHARE = 0.015
"""Share of a core that is spent on describing a running job again; its charts are always new."""


def _trial(folder: JobFolder) -> Trial:
    # Queries about a running job are small and frequent; threads would cost the training more than they save.
    return Trial(folder, threads=1 if folder.manifest().get("status") in RUNNING else None)


@dataclass
class _Last:
    """What the states of a job share."""

    description: Description | None = None
    """The newest description of the job; it may be older than the state."""
    with_it: dict[str, object] = field(default_factory=dict)
    """Other results that are computed together with the description."""
    at: float = 0.0
    took_s: float = 0.0
    later: int = 0
    """Number of descriptions that were made in the background."""
    begun: bool = False
    heatmap: Heatmap | None = None
    heatmap_stamp: int = 0
    drawing: threading.Lock = field(default_factory=threading.Lock)


class JobState:
    """A job in one state; later states of the job share its `lock`, which readers hold."""

    def __init__(self, folder: JobFolder, stamp: int, before: JobState | None = None) -> None:
        self.stamp = stamp
        self.good_until = 0.0
        self.lock: threading.Lock = threading.Lock() if before is None else before.lock
        # The connection and what is known of the files stay; what they hold is read anew.
        self.created = folder.manifest().get("created")
        self.reading: Reading = Reading(_trial(folder)) if before is None else self._next(before)
        self.cost_s = 0.0
        """CPU seconds spent on answers about this state, without the description."""
        self.cost_before_s: float = 0.0 if before is None else before.cost_s or before.cost_before_s
        """The same for the newest earlier state with answers."""
        self._answers: dict[str, bytes] = {}
        self._last: _Last = _Last() if before is None else before._last

    def _next(self, before: JobState) -> Reading:
        """Return a reading of the new state; for a running job it continues the steps of the last one."""
        last = before.reading
        follows = before.created == self.created and last.trial.manifest.get("status") in RUNNING
        return Reading(last.trial, before=vars(last).get("steps", last.before) if follows else None)

    @property
    def version(self) -> tuple[int, int]:
        """Numbers that change with the job, and when a background description is done."""
        return self.stamp, self._last.later

    @property
    def described(self) -> bool:
        """Whether any state of the job was described."""
        return self._last.description is not None

    def at_hand(self) -> bool:
        """Return whether a description exists or is quick; otherwise start it in the background."""
        if self.described:
            return True
        if not self.lock.acquire(blocking=False):
            return not self._last.begun
        try:
            trial = self.reading.trial
            if not is_long(trial) or description_kept.read(trial) is not None:
                return True
        finally:
            self.lock.release()
        self._last.begun = True
        threading.Thread(target=self._describe, daemon=True).start()
        return False

    def _describe(self) -> None:
        with self.lock:
            try:
                self.ready()
            except (OSError, LookupError, ValueError):
                pass  # the next request reports it
            else:
                self._last.later += 1
            self._last.begun = False

    def ready(self) -> Reading:
        """Return the job, described; to be called with the lock held."""
        if "description" not in vars(self.reading):
            last, now = self._last, time.monotonic()
            known, status = last.description, self.reading.trial.manifest.get("status")
            young = now - last.at < last.took_s / _SHARE
            if known and young and status in RUNNING and known["job"]["status"] == status:
                seconds = (time.time_ns() - known["job"]["start"]) / 1e9 if known["job"]["start"] else None
                vars(self.reading)["description"] = {**known, "job": {**known["job"], "duration_s": seconds}}
                vars(self.reading).update(last.with_it)
            else:
                began = time.thread_time()
                self.reading = replace(self.reading, before=None)  # rows of a late rank
                last.description = self.reading.description
                last.with_it = {name: getattr(self.reading, name) for name in ("main_loader", "planned")}
                last.at, last.took_s = now, time.thread_time() - began
        return self.reading

    def answer(self, key: str, made: Callable[[Reading], bytes], *, packed: bool = False) -> bytes:
        """Return an answer, compressed with gzip when `packed`."""
        with self.lock:
            reading = self.ready()
            began = time.thread_time()
            name = f"{key} packed" if packed else key
            if name not in self._answers:
                plain = self._answers[key] if key in self._answers else made(reading)
                self._keep(key, plain)
                if packed:
                    self._keep(name, gzip.compress(plain, 5))
            self.cost_s += time.thread_time() - began
            return self._answers[name]

    @contextmanager
    def heatmap(self) -> Iterator[Heatmap]:
        """Lend the job's heat map to one thread at a time; it does not wait for other readers of the job."""
        last, folder = self._last, self.reading.trial.folder
        with last.drawing:
            if last.heatmap is None:
                trial = Trial(folder)
                start, interval = int(trial.manifest.get("start") or 0), Reading(trial).interval_ns
                last.heatmap = Heatmap(trial, start, interval)
            elif last.heatmap_stamp != self.stamp:
                last.heatmap.refresh(Trial(folder))
            last.heatmap_stamp = self.stamp
            yield last.heatmap

    def at_once(self, key: str, *, packed: bool) -> bytes | None:
        """Return a cached answer, or None."""
        return self._answers.get(f"{key} packed" if packed else key)

    def _keep(self, key: str, answer: bytes) -> None:
        while len(self._answers) >= _MOST_ANSWERS:
            self._answers.pop(next(iter(self._answers)))
        self._answers[key] = answer
