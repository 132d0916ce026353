"""Bring what is recorded into the store: records of the spool, samples, events."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from holter.agent.drain.drain import Drain
from holter.agent.drain.profiling import Profiling
from holter.agent.drain.tensors import TensorDrain
from holter.agent.sampling import Sampler
from holter.store.place import LocalPlace
from holter.store.writer import UNWRITTEN, Writer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from holter.agent.collectors import Collector, Watched
    from holter.agent.drain.clock import Clock
    from holter.agent.drain.horovod import Timeline
    from holter.agent.drain.notes import Notes
    from holter.store.job import JobFolder

RELIEF_ROWS = 16_384
"""Rows that wait are written from here on, which keeps the agent below 100 MB …"""
RELIEF_S = 2.0
"""… but not more often than this: many small files cost who reads them."""
_FINAL_S = 60.0
_CLOSE_S, _CLOSE_REMOTE_S = 5.0, 20.0
"""How long the last rows are tried to be written; a network is away for a moment more often than a disk."""
_LINGER_TRAINER_S = 5.0
_LINGER_WORKER_S = 0.5


class Intake:
    """The drain, the sampler and the store's writer of one node."""

    def __init__(
        self,
        folder: JobFolder,
        node: str,
        *,
        spool: Path | None,
        clock: Clock,
        collectors: Sequence[Collector],
        interval_ms: int,
        watched: Watched,
        notes: Notes,
        timeline: Timeline | None = None,
        writer: Writer | None = None,
        drain: Drain | None = None,
    ) -> None:
        self.writer = writer or Writer(folder, node)
        self.drain = drain or (None if spool is None else Drain(spool, clock))
        self.profiling = None if self.drain is None else Profiling(self.drain)
        self.tensors = None if spool is None else TensorDrain(folder, node, spool, clock)
        self.sampler = Sampler(collectors, clock, interval_ms, on_fault=notes.fault)
        self._timeline = timeline
        self._watched = watched
        self._notes = notes
        self._relieved = time.monotonic()
        self._spent: deque[tuple[dict[str, int], list[Path]]] = deque()
        """Files of the spool that were read to their end, and what the store must hold before they go."""
        self._lost = (0, -1)
        """How many rows the writer had dropped when it dropped the last ones, and when; monotonic ns."""
        self._complete = True
        self._sampling = threading.Thread(target=self.sampler.run, name="holter-sampler", daemon=True)
        self._sampling.start()

    def poll(self, *, final: bool = False) -> bool:
        """Drain once; return whether more is waiting."""
        if self._timeline is not None:
            self._follow(self._timeline, final=final)
        if self.drain is None:
            return False
        batch = self.drain.poll(final=final)
        if batch.spans:
            self.writer.append("spans", batch.spans)
        if batch.scalars:
            self.writer.append("scalars", batch.scalars)
        if self.profiling is not None:
            self.profiling.pass_on()
            batch.events = self.profiling.take(batch.events, self.writer)
        self._notes.add(*batch.events)
        if self.tensors is not None:
            try:
                self._notes.add(*self.tensors.poll(self.drain, self.writer, final=final))
            except OSError as error:  # the rest must not wait for it
                self._notes.fault("tensors", error)
        self._watched.roles = {one.pid: one.role for one in self.drain.alive()}
        return batch.more

    def _follow(self, timeline: Timeline, *, final: bool) -> None:
        try:
            while True:
                for table, columns in timeline.poll(final=final).items():
                    self.writer.append(table, columns)
                if not (final and timeline.more):
                    return
        except OSError as error:
            self._notes.fault("horovod", error)

    def samples(self) -> None:
        """Hand over the samples that were taken."""
        columns = self.sampler.take()
        if columns["time"]:
            self.writer.append("samples", columns)

    def events(self) -> None:
        """Hand over the events, and let the writer write what is due."""
        if events := self._notes.take():
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
                self.writer.flush("events")  # somebody waits for it; its rows are there
        self.writer.poll()
        self._clear()
        now = time.monotonic()
        if self.writer.waiting >= RELIEF_ROWS and now - self._relieved >= RELIEF_S and not self.writer.fault:
            self._relieved = now
            self.writer.flush()

    @property
    def stored(self) -> bool:
        """Whether the store holds all that was taken from the spool, and nothing is left there."""
        return self._complete and not self._spent

    def _clear(self) -> None:
        """Remove the files of the spool whose records are stored; those of which some were dropped stay."""
        lost = sum(self.writer.dropped.values())
        if lost > self._lost[0]:
            self._lost = (lost, time.monotonic_ns())
        sources = [one for one in (self.drain, self.profiling, self.tensors) if one is not None]
        spent = [pair for source in sources for pair in source.spent()]
        whole = [path for path, since in spent if since > self._lost[1]]
        self._complete = self._complete and len(whole) == len(spent)
        if whole:
            self._spent.append((self.writer.mark(), whole))
        while self._spent and self.writer.holds(self._spent[0][0]):
            for path in self._spent.popleft()[1]:
                path.unlink(missing_ok=True)

    def hurry(self, watched: bool) -> None:
        """Write sooner while somebody looks; an object store is spared that."""
        self.writer.watched = watched and isinstance(self.writer.folder.place, LocalPlace)

    def linger(self, alarm: threading.Event) -> None:
        """Give processes that record a moment to end too; one that stays is none of ours to end."""
        begin = time.monotonic()
        while self.drain is not None:
            self.poll()
            waited = time.monotonic() - begin
            patience = max((_patience(one.is_worker) for one in self.drain.alive() if one.ticks), default=0.0)
            if waited >= patience or alarm.wait(0.05):
                return

    def finish(self, *, attached: bool, limit_s: float = _FINAL_S) -> None:
        """Stop sampling and take every record that is left, as far as that takes no longer than `limit_s`."""
        self.sampler.stop()
        self._sampling.join(2.0)
        deadline = time.monotonic() + limit_s
        while (more := self.poll(final=True)) and time.monotonic() < deadline:
            pass
        self._complete = self._complete and not more
        staying = [] if self.drain is None else [one.pid for one in self.drain.alive()]
        if staying and not attached:
            self._notes.note("exit", "processes stay", {"pids": staying, "role": "other", "clean": False})

    def close(self, alarm: threading.Event) -> None:
        """Write all; a store that cannot be written now is tried a few times."""
        local = isinstance(self.writer.folder.place, LocalPlace)
        deadline = time.monotonic() + (_CLOSE_S if local else _CLOSE_REMOTE_S)
        while not self.writer.flush() and time.monotonic() < deadline and not alarm.wait(0.5):
            pass
        if self.writer.fault:
            self._notes.fault("store", self.writer.fault)
        self.writer.close()
        self._clear()
        for table, rows in self.writer.dropped.items():
            text = f"{rows} rows of {table} were lost, {UNWRITTEN}"
            self._notes.fault("store", text)


def _patience(is_worker: bool) -> float:
    return _LINGER_WORKER_S if is_worker else _LINGER_TRAINER_S
