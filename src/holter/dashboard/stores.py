"""The jobs of the served stores, with a cache of their states."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from holter.dashboard.job_list import JobList, valid_until
from holter.dashboard.job_state import JobState
from holter.store.job import find
from holter.store.layout import CONTROL
from holter.views.jobs import RUNNING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holter.store.job import JobFolder
    from holter.views.jobs import ListedJob
    from holter.views.reading import Reading

MOST_AT_ONCE = 8
"""Answers that are computed at the same time. Each holds a thread, and short answers need threads too."""
_KEPT = 16
"""Jobs whose reading is kept."""


class Stores:
    """The stores behind the dashboard. Thread-safe; all methods may block."""

    def __init__(self, urls: Sequence[str]) -> None:
        self.urls = list(urls)
        self._known: dict[str, JobState] = {}
        self._lock = threading.Lock()
        self._jobs = JobList(urls)
        self.making: dict[tuple[Any, ...], asyncio.Future[bytes]] = {}
        """Answers that are being made, by question and state; only the event loop's thread uses it."""
        self.turns = asyncio.Semaphore(MOST_AT_ONCE)
        self.slow = 0
        """Slow answers that are computed or wait for their turn; only the event loop's thread uses it."""

    def listed(self, *, whole: bool = True) -> tuple[list[ListedJob], list[str]]:
        """Return every job's summary, newest first, and what could not be listed; see `JobList.all`."""
        return self._jobs.all(whole=whole)

    def folder(self, name: str, store: int = 0) -> JobFolder:
        """Return a job; raises `LookupError` with a sentence."""
        if not 0 <= store < len(self.urls):
            raise LookupError(f"there is no store {store}; valid: 0 to {len(self.urls) - 1}")
        return find(self.urls[store], name)

    def stamp(self, name: str, store: int = 0) -> int:
        """Return a number that changes with the job."""
        return hash(self.state(name, store).version)

    def last(self, name: str, store: int = 0) -> JobState | None:
        """Return the last known state of the job, without waiting."""
        return self._known.get(f"{store}/{name}")

    def early(self, name: str, store: int = 0) -> JobFolder | None:
        """Return a job whose description takes long, after starting it; `stamp` changes when it is done."""
        known = self.state(name, store)
        return None if known.at_hand() else known.reading.trial.folder

    @contextmanager
    def reading(self, name: str, store: int = 0) -> Iterator[Reading]:
        """Lend the job's reading to one thread at a time, so that each result is computed once."""
        known = self.state(name, store)
        with known.lock:
            yield known.ready()

    def kept(
        self, name: str, store: int, key: str, made: Callable[[Reading], bytes], *, packed: bool = False
    ) -> bytes:
        """Return an answer about the current state of the job, made once per state; `packed` with gzip."""
        return self.state(name, store).answer(key, made, packed=packed)

    def at_once(self, name: str, store: int, key: str, *, packed: bool) -> bytes | None:
        """Return a cached answer of `kept`, or None, without waiting."""
        known = self.last(name, store)
        if known is None or time.monotonic() >= known.good_until:
            return None
        return known.at_once(key, packed=packed)

    def age_s(self, name: str, store: int = 0) -> float | None:
        """Return how long ago the newest sample of the machine was taken, seconds; None without samples."""
        known = self.state(name, store)
        with known.lock:
            trial = known.reading.trial
            newest = None if trial.manifest.get("monitoring") is False else trial.newest("samples")
        return None if newest is None else max((time.time_ns() - newest) / 1e9, 0.0)

    def watched(self, name: str, store: int = 0) -> None:
        """Tell the agents of a running job that a page is open: they write sooner then."""
        known = self.state(name, store)
        folder = known.reading.trial.folder
        # Pages of a read-only store are only a little older.
        with suppress(OSError):
            if folder.manifest().get("status") in RUNNING:
                folder.order(watched=time.time_ns())

    def state(self, name: str, store: int = 0) -> JobState:
        """Return the current state of the job."""
        key = f"{store}/{name}"
        with self._lock:
            known = self._known.get(key)
            began = time.monotonic()
            if known is not None and began < known.good_until:
                return known
            folder = self.folder(name, store)
            # Orders and the signal of an open page change nothing on pages.
            stamp = hash(tuple(entry for entry in folder.place.files() if entry.key != CONTROL))
            if known is None or known.stamp != stamp:
                known = JobState(folder, stamp, known)
                self._known.pop(key, None)
                self._known[key] = known
                while len(self._known) > _KEPT:
                    self._known.pop(next(iter(self._known)))
            known.good_until = valid_until(began)
            return known
