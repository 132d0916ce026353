"""Lists the jobs of stores: reads each ended job once, running ones now and then, thousands in portions."""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING

from holter.store.job import JobFolder
from holter.store.layout import JOB_NAME, MANIFEST
from holter.store.urls import place
from holter.views.jobs import RUNNING, summary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holter.views.jobs import ListedJob

UNREAD = "not read yet"
"""Status of a job of which only the name has been read."""
AT_ONCE = 500
RUNNING_S = 3.0
"""A running job is read again after so long: it takes a tenth of a second of CPU time."""
_STALE_S = 0.4
_REST = 10


class JobList:
    """Summaries of jobs. Thread-safe."""

    def __init__(self, urls: Sequence[str], *, at_once: int = AT_ONCE) -> None:
        """List some stores; a portion is `at_once` jobs."""
        self.urls = list(urls)
        self.at_once = at_once
        self._lock = threading.Lock()
        self._read: dict[str, dict[str, tuple[str | None, float, ListedJob]]] = {}
        """By store and name: the stamp of the manifest, until when the summary is valid, and the summary."""
        self._found: tuple[list[ListedJob], list[str]] = [], []
        self._left = 0
        """Jobs that have not been read."""
        self._held: dict[str, int] = {}
        """Number of jobs of each store when it last had any."""
        self._until = 0.0

    def all(self, *, whole: bool = True) -> tuple[list[ListedJob], list[str]]:
        """Return every job's summary, newest first, and what could not be listed.

        Without `whole`, only the new jobs that changed last are read; the others have the status `UNREAD`.
        """
        with self._lock:
            if time.monotonic() < self._until and not (whole and self._left):
                return self._found
            began = time.monotonic()
            found, wrong, self._left = [], [], 0
            for number, url in enumerate(self.urls):
                try:
                    own: list[ListedJob] = [{**one, "store": number} for one in self._store(url, whole)]
                except (OSError, ValueError) as error:
                    wrong.append(f"store {url}: {error}")
                    continue
                found += own
                if own:
                    self._held[url] = len(own)
                elif url in self._held:
                    wrong.append(f"store {url}: the jobs that it had ({self._held[url]}) are gone")
            self._found = sorted(found, key=lambda job: -(job["created"] or 0)), wrong
            self._until = valid_until(began)
            return self._found

    def _store(self, url: str, whole: bool) -> Iterator[ListedJob]:
        store, now = place(url), time.time_ns()
        before, kept = self._read.get(url, {}), {}
        fresh = []
        for name in filter(JOB_NAME.fullmatch, store.folders()):
            stamp = store.below(name).stamp(MANIFEST)
            known = before.get(name)
            if known is not None and known[0] == stamp and time.monotonic() < known[1]:
                kept[name] = known
                yield known[2]
            else:
                fresh.append((_changed(stamp), name, stamp))
        fresh.sort(reverse=True)
        for at, (changed, name, stamp) in enumerate(fresh):
            if at >= self.at_once and not whole:
                self._left += 1
                if (old := before.get(name)) is not None and old[0] == stamp:
                    kept[name] = old
                yield _by_name(name, changed) if name not in kept else kept[name][2]
                continue
            read = summary(JobFolder(store.below(name), name), now)
            if read["status"] != "Unreadable":
                until = time.monotonic() + RUNNING_S if read["status"] in RUNNING else math.inf
                kept[name] = stamp, until, read
            yield read
        self._read[url] = kept


def _changed(stamp: str | None) -> int:
    """Return when a job's manifest changed, ns since the epoch; 0 if unknown."""
    when = (stamp or "").partition("-")[0]
    return int(when) if when.isdigit() else 0


def _by_name(name: str, changed: int) -> ListedJob:
    return {
        "name": name,
        "created": changed or None,
        "status": UNREAD,
        "duration_s": None,
        "exit_code": None,
        "verdict": None,
        "step": None,
        "planned": None,
        "silent_s": None,
        "fault": None,
        "tags": {},
        "course": None,
        "issue": None,
    }


def valid_until(began: float) -> float:
    """Return until when a listing that began at a moment of the monotonic clock is valid.

    Listing takes at most a tenth of the time: slow stores, such as object stores, are listed less often.
    """
    now = time.monotonic()
    return now + max(_STALE_S, _REST * (now - began))
