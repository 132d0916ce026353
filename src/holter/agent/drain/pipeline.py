"""Moves records of the spool, samples and events of one node into the store."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from holter.agent.drain.profiling import Profiling
from holter.agent.drain.tensors import TensorDrain
from holter.store.place import LocalPlace
from holter.store.writer import UNWRITTEN

if TYPE_CHECKING:
    from pathlib import Path

    from holter.agent.collectors import Watched
    from holter.agent.drain.drain import Drain
    from holter.agent.drain.event_log import EventLog
    from holter.agent.drain.horovod import HorovodTimeline
    from holter.agent.drain.recent import RecentRecords
    from holter.agent.sampling import Sampler
    from holter.store.writer import Writer

RELIEF_ROWS = 16_384
"""This number of waiting rows is written at once, which keeps the agent below 100 MB …"""
RELIEF_S = 2.0
"""… but not more often than this, because many small files slow readers down."""
_FINAL_S = 60.0
_CLOSE_S, _CLOSE_REMOTE_S = 5.0, 20.0
"""Time limits for writing the last rows; a network fails for a moment more often than a disk."""
_LINGER_TRAINER_S = 5.0
_LINGER_WORKER_S = 0.5


class Pipeline:
    """The drain, the sampler and the store's writer of one node."""

    def __init__(
        self,
        writer: Writer,
        drain: Drain | None,
        sampler: Sampler,
        event_log: EventLog,
        watched: Watched,
        timeline: HorovodTimeline | None = None,
        recent: RecentRecords | None = None,
    ) -> None:
        self.writer = writer
        self.drain = drain
        self.profiling = None if drain is None else Profiling(drain)
        self.tensors = None if drain is None else TensorDrain(drain, writer)
        self.sampler = sampler
        self._timeline = timeline
        self._recent = recent
        self._watched = watched
        self._event_log = event_log
        self._relieved = time.monotonic()
        self._spent: deque[tuple[dict[str, int], list[Path]]] = deque()
        """Completely read files of the spool, and the rows to store before they are removed."""
        self._lost = (0, -1)
        """Number of rows that the writer has dropped, and the time of the last drop, monotonic ns."""
        self._complete = True
        self._sampling = threading.Thread(target=self.sampler.run, name="holter-sampler", daemon=True)
        self._sampling.start()

    def poll(self, *, final: bool = False) -> bool:
        """Drain once; return whether more records wait."""
        if self._timeline is not None:
            self._follow(self._timeline, final=final)
        if self.drain is None:
            return False
        batch = self.drain.poll(final=final)
        if self._recent is not None:
            self._recent.take(self.drain, batch)
        if batch.spans:
            self.writer.append("spans", batch.spans)
        if batch.scalars:
            self.writer.append("scalars", batch.scalars)
        if self.profiling is not None:
            self.profiling.pass_on()
            batch.events = self.profiling.take(batch.events, self.writer)
        self._event_log.add(*batch.events)
        if self.tensors is not None:
            try:
                self._event_log.add(*self.tensors.poll(final=final))
            except OSError as error:  # the rest must not wait for it
                self._event_log.fault("tensors", error)
        alive = self.drain.alive()
        self._watched.roles = {one.pid: one.role for one in alive}
        self._watched.loops = {one.pid: loop for one in alive if (loop := self.drain.loop_of(one))}
        return batch.more

    def _follow(self, timeline: HorovodTimeline, *, final: bool) -> None:
        try:
            while True:
                for table, columns in timeline.poll(final=final).items():
                    self.writer.append(table, columns)
                if not (final and timeline.more):
                    return
        except OSError as error:
            self._event_log.fault("horovod", error)

    def samples(self) -> None:
        """Pass the new samples to the writer."""
        columns = self.sampler.take()
        if columns["time"]:
            self.writer.append("samples", columns)

    def events(self) -> None:
        """Pass the new events to the writer, and write the rows that are due."""
        if events := self._event_log.take():
            self.writer.append(
                "events",
                {
                    "time": [event.time for event in events],
                    "rank": [event.rank for event in events],
                    "kind": [event.kind for event in events],
                    "name": [event.name for event in events],
                    "detail": [json.dumps(event.detail, default=str) for event in events],
                },
            )
            if any(event.kind == "window" for event in events):
                self.writer.flush("events")  # a user waits for this window
        self.writer.poll()
        self._clear()
        now = time.monotonic()
        if self.writer.waiting >= RELIEF_ROWS and now - self._relieved >= RELIEF_S and not self.writer.fault:
            self._relieved = now
            self.writer.flush()

    @property
    def stored(self) -> bool:
        """Whether the store holds all records of the spool."""
        return self._complete and not self._spent

    def _clear(self) -> None:
        """Remove the files of the spool whose records are stored; files with dropped records stay."""
        lost = sum(self.writer.dropped.values())
        if lost > self._lost[0]:
            self._lost = (lost, time.monotonic_ns())
        spent = [] if self.drain is None else self.drain.spent()
        whole = [path for path, since in spent if since > self._lost[1]]
        self._complete = self._complete and len(whole) == len(spent)
        if whole:
            self._spent.append((self.writer.mark(), whole))
        while self._spent and self.writer.holds(self._spent[0][0]):
            for path in self._spent.popleft()[1]:
                path.unlink(missing_ok=True)

    def hurry(self, watched: bool) -> None:
        """Write sooner while somebody looks, except into an object store."""
        self.writer.watched = watched and isinstance(self.writer.folder.place, LocalPlace)

    def linger(self, alarm: threading.Event) -> None:
        """Wait a moment for recorded processes to end; the agent does not end those that stay."""
        begin = time.monotonic()
        while self.drain is not None:
            self.poll()
            waited = time.monotonic() - begin
            living = [one for one in self.drain.alive() if one.ticks]
            limits = (_LINGER_WORKER_S if one.is_worker else _LINGER_TRAINER_S for one in living)
            patience = max(limits, default=0.0)
            if waited >= patience or alarm.wait(0.05):
                return

    def finish(self, *, attached: bool, limit_s: float = _FINAL_S) -> None:
        """Stop sampling and take the remaining records within `limit_s`."""
        self.sampler.stop()
        self._sampling.join(2.0)
        deadline = time.monotonic() + limit_s
        while (more := self.poll(final=True)) and time.monotonic() < deadline:
            pass
        self._complete = self._complete and not more
        staying = [] if self.drain is None else [one.pid for one in self.drain.alive()]
        if staying and not attached:
            self._event_log.note("exit", "processes stay", {"pids": staying, "role": "other", "clean": False})

    def close(self, alarm: threading.Event) -> None:
        """Write all rows; retry for a while when the store cannot be written."""
        local = isinstance(self.writer.folder.place, LocalPlace)
        deadline = time.monotonic() + (_CLOSE_S if local else _CLOSE_REMOTE_S)
        while not self.writer.flush() and time.monotonic() < deadline and not alarm.wait(0.5):
            pass
        if self.writer.fault:
            self._event_log.fault("store", self.writer.fault)
        self.writer.close()
        self._clear()
        for table, rows in self.writer.dropped.items():
            # Not "lost": a spool that is kept still holds them.
            text = f"{rows} rows of {table} were not stored, {UNWRITTEN}"
            self._event_log.fault("store", text)
