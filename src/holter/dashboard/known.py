"""One job as it was when it was last looked at, and the answers about it: each is made once."""

from __future__ import annotations

import gzip
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holter.store.trial import Trial
from holter.views.document import description_kept
from holter.views.jobs import RUNNING
from holter.views.reading import Reading
from holter.views.tables import is_long

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.store.job import JobFolder
    from holter.views.document.types import Description

_MOST_ANSWERS = 64
_SHARE = 0.015
"""The share of a core that is spent on describing a running job anew; its charts are always new."""


def _trial(folder: JobFolder) -> Trial:
    # What runs is asked about little and often, beside the training; threads would cost more than they save.
    return Trial(folder, threads=1 if folder.manifest().get("status") in RUNNING else None)


class _Last:
    """What was described last of a job, whatever has changed since."""

    description: Description | None = None
    with_it: dict[str, Any] = {}  # noqa: RUF012 - replaced, never changed
    """What else is looked for as often."""
    at = 0.0
    took_s = 0.0
    later = 0
    """How often something was described that nobody waited for."""
    begun = False


class Known:
    """A job in one state; `lock` is held by who reads it, and is the same for its later states."""

    def __init__(self, folder: JobFolder, stamp: int, before: Known | None = None) -> None:
        self.stamp = stamp
        self.good_until = 0.0
        self.lock: threading.Lock = threading.Lock() if before is None else before.lock
        # The connection and what is known of the files stay; what they hold is read anew.
        self.created = folder.manifest().get("created")
        self.reading: Reading = Reading(_trial(folder)) if before is None else self._next(before)
        self.cost_s = 0.0
        """CPU seconds spent on answers about this state of the job, without describing it."""
        self.cost_before_s: float = 0.0 if before is None else before.cost_s or before.cost_before_s
        """The same of the newest state before it that was asked about."""
        self._answers: dict[str, bytes] = {}
        self._last: _Last = _Last() if before is None else before._last

    def _next(self, before: Known) -> Reading:
        """Return a later reading of a job; of one that runs, only what came since is read of its steps."""
        last = before.reading
        follows = before.created == self.created and last.trial.manifest.get("status") in RUNNING
        return Reading(last.trial, before=vars(last).get("steps", last.before) if follows else None)

    @property
    def later(self) -> int:
        """A number that changes when the job is described for who did not wait for it."""
        return self._last.later

    @property
    def described(self) -> bool:
        """Whether the job was described in any state."""
        return self._last.description is not None

    def at_hand(self) -> bool:
        """Whether the job is described, or that takes no time; else it is begun now, and nobody waits."""
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
                pass  # whoever looks again finds out
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
                self.reading = replace(self.reading, before=None)  # a rank may have been late
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

    def at_once(self, key: str, *, packed: bool) -> bytes | None:
        """Return an answer that was made already; None else."""
        return self._answers.get(f"{key} packed" if packed else key)

    def _keep(self, key: str, answer: bytes) -> None:
        while len(self._answers) >= _MOST_ANSWERS:
            self._answers.pop(next(iter(self._answers)))
        self._answers[key] = answer
