"""The jobs that are served, and what of them is known already."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from holter.dashboard.job_list import JobList
from holter.dashboard.known import Known
from holter.store.job import find
from holter.store.layout import CONTROL
from holter.views.jobs import RUNNING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator, Sequence

    from anyio import CapacityLimiter

    from holter.store.job import JobFolder
    from holter.views.reading import Reading

_KEPT = 16
"""Jobs whose reading is kept."""
_STALE_S = 0.4
"""A listing of a job's files is good for so long, however many look."""
_REST = 10
"""Listing takes a tenth of the time at most: where it is slow, as in object stores, it is done less often."""


class Stores:
    """The stores behind the dashboard. All methods may block, and may be called from any thread."""

    def __init__(self, urls: Sequence[str]) -> None:
        self.urls = list(urls)
        self._known: dict[str, Known] = {}
        self._lock = threading.Lock()
        self._jobs = JobList(urls)
        self.making: dict[tuple[Any, ...], asyncio.Future[bytes]] = {}
        """Answers on their way, by what is asked of which state; of the event loop's thread alone."""
        self.turns: CapacityLimiter | None = None
        """Who may compute now; of the event loop's thread alone."""

    def listed(self, *, whole: bool = True) -> tuple[list[dict[str, Any]], list[str]]:
        """Return every job's summary, newest first, and what could not be listed; see `JobList.all`."""
        return self._jobs.all(whole=whole)

    def folder(self, name: str, store: int = 0) -> JobFolder:
        """Return a job; raises `LookupError` in words."""
        if not 0 <= store < len(self.urls):
            raise LookupError(f"there is no store {store}; valid: 0 to {len(self.urls) - 1}")
        return find(self.urls[store], name)

    def stamp(self, name: str, store: int = 0) -> int:
        """Return a number that changes when anything of the job does."""
        known = self._look(name, store)
        return hash((known.stamp, known.later))

    def state(self, name: str, store: int = 0) -> tuple[int, int] | None:
        """Return which state of the job was seen last; answers without waiting."""
        known = self._known.get(f"{store}/{name}")
        return None if known is None else (known.stamp, known.later)

    def described(self, name: str, store: int = 0) -> bool:
        """Whether the job was described before; answers without waiting."""
        known = self._known.get(f"{store}/{name}")
        return known is not None and known.described

    def early(self, name: str, store: int = 0) -> JobFolder | None:
        """Return a job that takes a while to describe; that is begun, and `stamp` changes when it is done."""
        known = self._look(name, store)
        return None if known.at_hand() else known.reading.trial.folder

    @contextmanager
    def reading(self, name: str, store: int = 0) -> Iterator[Reading]:
        """Lend the job as charts read it, to one at a time: what it computes is computed once for all."""
        known = self._look(name, store)
        with known.lock:
            yield known.ready()

    def kept(
        self, name: str, store: int, key: str, made: Callable[[Reading], bytes], *, packed: bool = False
    ) -> bytes:
        """Return an answer about the job as it is now: made once, however many ask; `packed` with gzip."""
        return self._look(name, store).answer(key, made, packed=packed)

    def at_once(self, name: str, store: int, key: str, *, packed: bool) -> bytes | None:
        """Return what `kept` would, where that is known without waiting or reading anything; None else."""
        known = self._known.get(f"{store}/{name}")
        if known is None or time.monotonic() >= known.good_until:
            return None
        return known.at_once(key, packed=packed)

    def age_s(self, name: str, store: int = 0) -> float | None:
        """Return how long ago the newest sample of the machine was taken, seconds; None where none is."""
        known = self._look(name, store)
        with known.lock:
            trial = known.reading.trial
            newest = None if trial.manifest.get("monitoring") is False else trial.newest("samples")
        return None if newest is None else max((time.time_ns() - newest) / 1e9, 0.0)

    def watched(self, name: str, store: int = 0) -> None:
        """Let a running job's agents know that somebody looks: they write sooner then."""
        known = self._look(name, store)
        folder = known.reading.trial.folder
        # A store that this process may not write is still shown, a little later.
        with suppress(OSError):
            if folder.manifest().get("status") in RUNNING:
                folder.order(watched=time.time_ns())

    def cost_s(self, name: str, store: int = 0) -> float:
        """Return how much CPU time answers about the job's present state took, or about the one before."""
        with self._lock:
            known = self._known.get(f"{store}/{name}")
        return 0.0 if known is None else known.cost_s or known.cost_before_s

    def _look(self, name: str, store: int) -> Known:
        key = f"{store}/{name}"
        with self._lock:
            known = self._known.get(key)
            began = time.monotonic()
            if known is not None and began < known.good_until:
                return known
            folder = self.folder(name, store)
            # What the job is told, and that somebody looks, changes nothing that is shown.
            stamp = hash(tuple(entry for entry in folder.place.files() if entry.key != CONTROL))
            if known is None or known.stamp != stamp:
                known = Known(folder, stamp, known)
                self._known.pop(key, None)
                self._known[key] = known
                while len(self._known) > _KEPT:
                    self._known.pop(next(iter(self._known)))
            now = time.monotonic()
            known.good_until = now + max(_STALE_S, _REST * (now - began))
            return known
