"""Reads the records of one thread from its segments: each once, and only complete ones."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.schema import record
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

RECORD = np.dtype([(name, f"<{code}") for name, code in record.FIELDS])

_PEEK = 64
"""Records read to see whether an idle thread has anything new."""


class Segments:
    """The segments of one thread.

    A record is complete once an *earlier* read saw its last byte set, because on any CPU its other bytes have
    become visible since. A segment is complete once it had a successor at an earlier look.
    """

    def __init__(self, spool: Path, process: str, thread: int, spent: list[tuple[Path, int]]) -> None:
        """Read the segments of a thread; `spent` gets each that is read completely, with the time."""
        self.spool = spool
        self.process = process
        self.thread = thread
        self.number: int | None = None
        """The segment being read."""
        self._taken = 0
        self._seen = 0
        self._done = -1
        """Segments up to this number are spent."""
        self._began = 0
        """Monotonic ns at which the first record of this segment was taken."""
        self._spent = spent
        self._closed: set[int] = set()
        """Segments that had a successor at the last look."""

    def take(self, numbers: list[int], limit: int, *, final: bool) -> list[NDArray[Any]]:
        """Return new records, at most about `limit`; `numbers` are the segments that exist, in order.

        `final`: the process is dead, so that every record whose last byte is set is complete.
        """
        found: list[NDArray[Any]] = []
        numbers = [n for n in numbers if n > self._done]
        closed, self._closed = self._closed, set(numbers[:-1])
        while numbers and limit > 0:
            if self.number is None or self.number not in numbers:
                later = [n for n in numbers if self.number is None or n > self.number]
                if not later:
                    break
                self.number, self._taken, self._seen = later[0], 0, 0
                self._began = time.monotonic_ns()
            done = final or self.number in closed
            records = self._read(limit, done=done)
            limit -= len(records)
            if len(records):
                found.append(unfold(records))
            over = self._taken >= record.SEGMENT_RECORDS or (done and not len(records))
            if not (over and self.number < numbers[-1]):
                if final and len(records):
                    continue
                break
            self._spent.append((self._path(self.number), self._began))
            self._done = self.number
            numbers = [n for n in numbers if n > self._done]
        return found

    def _read(self, limit: int, *, done: bool) -> NDArray[Any]:
        """Return what may be taken of the current segment, and note what is complete now."""
        try:
            descriptor = os.open(self._path(self.number or 0), os.O_RDONLY)
        except OSError:
            return np.empty(0, RECORD)
        try:
            waiting = self._seen - self._taken
            data = self._records(descriptor, min(limit, waiting + _PEEK))
            complete = _prefix(data)
            if complete == len(data) and complete < limit:
                data = self._records(descriptor, limit)
                complete = _prefix(data)
        finally:
            os.close(descriptor)
        take = complete if done else min(waiting, complete)
        self._seen = self._taken + complete
        self._taken += take
        return data[:take]

    def _records(self, descriptor: int, count: int) -> NDArray[Any]:
        count = min(count, record.SEGMENT_RECORDS - self._taken)
        data = os.pread(descriptor, count * record.RECORD_SIZE, self._taken * record.RECORD_SIZE)
        return np.frombuffer(data[: len(data) - len(data) % record.RECORD_SIZE], RECORD)

    def _path(self, number: int) -> Path:
        return self.spool / record.segment_name(self.process, self.thread, number)


def unfold(records: NDArray[Any]) -> NDArray[Any]:
    """Return records with those that are folded into others each behind its own (see `schema.record`)."""
    phase, valued = records["phase"], ~np.isnan(records["value"])
    losses, steps = (phase == Phase.LOSS) & valued, (phase == Phase.OPTIMIZER) & valued
    folded = losses | steps
    if not folded.any():
        return records
    more = records[folded]
    loss = losses[folded]
    end = more["begin"] + more["duration"]
    lead = np.where(loss, 0.0, more["value"]).astype(np.int64)
    more["begin"] = np.where(loss, end, record.step_begin(more["begin"], lead))
    more["duration"] = np.where(loss, 0, end - more["begin"])
    more["value"][~loss] = np.nan
    more["name"][~loss] = 0
    more["phase"] = np.where(loss, Phase.SCALAR, Phase.STEP)
    plain = records.copy()
    plain["value"][folded] = np.nan
    return np.insert(plain, np.flatnonzero(folded) + 1, more)


def _prefix(records: NDArray[Any]) -> int:
    """Return how many records at the beginning are complete."""
    unfinished = records["phase"] == 0
    return int(unfinished.argmax()) if unfinished.any() else len(records)
