"""One job as it was when it was last looked at, and the answers about it: each is made once."""

from __future__ import annotations

import gzip
import threading
import time
from typing import TYPE_CHECKING

from holter.store.trial import Trial
from holter.views.figures import Reading
from holter.views.jobs import RUNNING

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.store.job import JobFolder

_MOST_ANSWERS = 64
_SHARE = 0.03
"""The share of a core that is spent on describing a running job anew; its charts are always new."""


class Known:
    """A job in one state; `lock` is held by who reads it, and is the same for its later states."""

    def __init__(self, folder: JobFolder, stamp: int, before: Known | None = None) -> None:
        self.stamp = stamp
        self.good_until = 0.0
        self.lock: threading.Lock = threading.Lock() if before is None else before.lock
        # The connection and what is known of the files stay; what they hold is read anew.
        self.reading: Reading = Reading(Trial(folder) if before is None else before.reading.trial)
        self.cost_s = 0.0
        """CPU seconds spent on answers about this state of the job."""
        self._answers: dict[str, bytes] = {}
        self._before = None if before is None else vars(before.reading).get("description")
        self._described: float = 0.0 if before is None else before._described
        self._describing_s: float = 0.0 if before is None else before._describing_s

    def ready(self) -> Reading:
        """Return the job, described; to be called with the lock held."""
        if "description" not in vars(self.reading):
            known, now = self._before, time.monotonic()
            status = self.reading.trial.manifest.get("status")
            young = now - self._described < self._describing_s / _SHARE
            if known and young and status in RUNNING and known["job"]["status"] == status:
                seconds = (time.time_ns() - known["job"]["start"]) / 1e9 if known["job"]["start"] else None
                vars(self.reading)["description"] = {**known, "job": {**known["job"], "duration_s": seconds}}
            else:
                began = time.thread_time()
                self.reading.description  # noqa: B018 - kept where it is asked for
                self._described, self._describing_s = now, time.thread_time() - began
                self.cost_s += self._describing_s
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

    def _keep(self, key: str, answer: bytes) -> None:
        while len(self._answers) >= _MOST_ANSWERS:
            self._answers.pop(next(iter(self._answers)))
        self._answers[key] = answer
