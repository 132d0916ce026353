"""Drains the spool: converts records into rows of `spans` and `scalars`, and journal lines into events."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.agent.collectors import LoopThread
from holter.agent.drain.heads import HeadPage, read_head
from holter.agent.drain.journal import JournalReader, Process, RecordedEvent, SpoolFacts
from holter.agent.drain.listing import Listing
from holter.agent.drain.ranks import Ranks
from holter.agent.drain.rows import TRAINING, Part, PolledRows, RowEncoder, own_steps
from holter.agent.drain.segments import Segments
from holter.agent.machine import procfs
from holter.schema import record
from holter.schema.phases import NO_PROGRESS, Phase
from holter.schema.table import steps_at_once

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from holter.agent.drain.clock import Clock

BUDGET = 32_768
"""Most records of one poll; the others wait in the spool on disk."""
_FAIR = 8_192
"""Most records of one thread in one poll, so that a busy thread does not starve the others."""
_FOREIGN_S = 3.0
"""A process that /proc never showed (another pid namespace) is dead after this long without a record."""

_NO_PROGRESS = [int(Phase[name.upper()]) for name in NO_PROGRESS]
_SLOW = (Phase.CHECKPOINT, Phase.EVAL, Phase.COMPILE)


class Drain:
    """All processes of one spool directory."""

    def __init__(
        self,
        spool: Path,
        clock: Clock,
        *,
        proc: Path = procfs.PROC,
        now: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.spool = spool
        self.clock = clock
        self.processes: dict[str, Process] = {}
        """Trainers, living or dead, and living workers."""
        self.records = 0
        self.dropped = 0
        self.slow: dict[str, deque[int]] = {phase.name.lower(): deque(maxlen=100) for phase in _SLOW}
        """What phases that may take long took, ns."""
        self.facts = SpoolFacts(clock)
        self.ranks = Ranks(self.processes, clock, spool)
        self._proc = proc
        self._now = now
        self.read_files: list[tuple[Path, int]] = []
        """Completely read files with the time; the pipeline removes them once their rows are stored."""
        self.listing = Listing(spool)
        """The files of the spool at the last poll."""
        self._journals: dict[str, JournalReader] = {}
        self._threads: dict[tuple[str, int], Segments] = {}
        self._buried: set[str] = set()
        self._held: dict[str, list[RecordedEvent]] = {}
        """Events of processes whose rank is not known yet."""
        self._cost_of_buried = 0
        self._rows = RowEncoder(clock, self.facts)

    @property
    def cost_ns(self) -> int:
        """What recording cost the processes, as far as they measured it."""
        return self._cost_of_buried + sum(process.cost_ns for process in self.processes.values())

    def poll(self, *, final: bool = False, now: int | None = None) -> PolledRows:
        """Take what is new; `final` takes every finished record of every process and waits for nothing."""
        now = self._now() if now is None else now
        batch = PolledRows()
        listing = self.listing = Listing.of(self.spool, without=self._buried)
        for key in listing.journals:
            if key not in self.processes:
                self._meet(key, now)
        # Dead processes must be known before reading, so that their last records are complete.
        gone = {
            key
            for key, process in self.processes.items()
            if key not in self._buried and self._is_gone(process, now, final=final)
        }
        for key, process in self.processes.items():
            for line in self._journals[key].lines(final=final or key in gone):
                with contextlib.suppress(ValueError, TypeError, OverflowError):  # damage costs its own line
                    self._held.setdefault(key, []).extend(self.facts.take(process, line, now))
        parts, finished = self._records(listing.segments, gone, batch, final=final, now=now)
        self._release(gone, batch, final=final, now=now)
        self._convert(parts, batch)
        self._read_heads(listing.heads, set(self.processes) if final else gone)
        for key in gone & finished:
            batch.events.extend(self._bury(self.processes[key]))
        return batch

    def spent(self) -> list[tuple[Path, int]]:
        """Return the files that were read completely since the last call, each with the time."""
        found = list(self.read_files)
        self.read_files.clear()
        return found

    def alive(self) -> list[Process]:
        """Return the processes that still run."""
        return [process for process in self.processes.values() if process.died is None]

    def robbed(self) -> list[str]:
        """Return what somebody has deleted: the spool, or the files of processes that are not through yet."""
        if not self.spool.is_dir():
            return [f"folder {self.spool}"]
        there = set(self.listing.journals) | self._buried
        return [
            f"files of process {process.pid} in {self.spool}"
            for key, process in self.processes.items()
            if key not in there and not self.spool.joinpath(record.journal_name(key)).exists()
        ]

    def loop_of(self, process: Process) -> LoopThread | None:
        """Return the thread that runs the training loop of a process; None until its rank is known."""
        if process.loop_head is None or not process.is_trainer or self.ranks.of(process) < 0:
            return None
        head = self.spool / record.head_name(process.key, process.loop_thread)
        return LoopThread(self.ranks.of(process), process.loop_head.thread, head)

    def trainers(self) -> list[Process]:
        """Return the training processes, dead ones too."""
        return [process for process in self.processes.values() if process.is_trainer]

    def _meet(self, key: str, now: int) -> None:
        pid, _, started = key.partition("-")
        if not (pid.isdigit() and started.isdigit()):
            return
        process = Process(key, int(pid), int(started), now, last_progress=now, checked=now)
        process.assigned = self.ranks.given(key)
        self.processes[key] = process
        self._journals[key] = JournalReader(self.spool / record.journal_name(key))

    def _is_gone(self, process: Process, now: int, *, final: bool) -> bool:
        """Return whether a process has ended, and note when this was seen."""
        if process.died is not None:
            return True
        stat = procfs.stat(process.pid, self._proc)
        if stat is not None and stat.alive and process.ticks in (None, stat.started):
            process.ticks = stat.started
            process.checked = now
            return False
        never_found = process.ticks is None and process.end is None and not final
        if never_found and now - process.last_progress < _FOREIGN_S * 1e9:
            return False
        process.died = now
        return True

    def _records(
        self,
        segments: dict[tuple[str, int], list[int]],
        gone: set[str],
        batch: PolledRows,
        *,
        final: bool,
        now: int,
    ) -> tuple[list[Part], set[str]]:
        """Take records thread by thread; return them, and the processes without further records."""
        parts: list[Part] = []
        left = BUDGET
        unfinished = set()
        turns = sorted(segments, key=lambda at: self._threads[at].number or 0 if at in self._threads else -1)
        for key, thread in turns:
            process = self.processes.get(key)
            if process is None:
                continue
            settled = self.ranks.settle(process, now, final=final or key in gone, events=batch.events)
            reader = self._threads.setdefault(
                (key, thread), Segments(self.spool, key, thread, self.read_files)
            )
            limit = min(left, _FAIR)
            if not settled or limit <= 0:
                unfinished.add(key)
                batch.more = batch.more or limit <= 0
                continue
            taken = 0
            for records in reader.take(segments[key, thread], limit, final=final or key in gone):
                parts.append((process, thread, records))
                taken += len(records)
                self._note_progress(process, records, now)
            left -= taken
            if taken >= limit:
                unfinished.add(key)
                batch.more = True
        return parts, set(self.processes) - unfinished

    def _release(self, gone: set[str], batch: PolledRows, *, final: bool, now: int) -> None:
        """Hand out the events of processes whose rank is known by now."""
        for key in list(self._held):
            process = self.processes[key]
            if self.ranks.settle(process, now, final=final or key in gone, events=batch.events):
                rank = self.ranks.of(process)
                batch.events.extend(replace(event, rank=rank) for event in self._held.pop(key))

    def _note_progress(self, process: Process, records: NDArray[Any], now: int) -> None:
        if np.isin(records["phase"], _NO_PROGRESS).all():
            return
        process.last_progress = now
        parent = self.processes.get(process.parent or "")
        if parent is not None:  # a trainer that waits for a slow worker does not hang
            parent.last_progress = now

    def _convert(self, parts: list[Part], batch: PolledRows) -> None:
        """Turn records into the columns of both tables, and note the steps among them."""
        if not parts:
            return
        parts = own_steps(parts, self.processes.values())
        for process, thread, records in parts:
            process.records += len(records)
            if process.is_trainer:
                self._note_steps(process, thread, records)
        ranks = [self.ranks.of(process) for process, _, _ in parts]
        batch.rows = sum(len(records) for _, _, records in parts)
        batch.spans, batch.scalars = self._rows.columns(parts, ranks)
        self.records += batch.rows

    def _note_steps(self, process: Process, thread: int, records: NDArray[Any]) -> None:
        training, steps = TRAINING[records["phase"]], records[records["phase"] == Phase.STEP]
        if len(steps) or (training.any() and not process.steps):
            process.loop_thread = thread
        if thread != process.loop_thread:
            return
        for slow in _SLOW:
            self.slow[slow.name.lower()].extend(records["duration"][records["phase"] == slow].tolist())
        if training.any():
            process.begun = max(process.begun, int(records["begin"][training].max()))
        ended = steps_at_once(steps["value"])
        process.steps += int(ended.sum())
        process.durations.extend(steps["duration"].tolist())
        if len(steps):
            process.last_step = int(steps["step"][-1] + ended[-1]) - 1

    def _read_heads(self, heads: list[tuple[str, int]], asked: set[str]) -> None:
        """Note dropped records, the cost of recording, and the position of a trainer's loop."""
        totals: dict[str, tuple[int, int]] = {}
        for key, thread in heads:
            process = self.processes.get(key)
            # A worker's head is worth reading once, when it is dead; a trainer's tells what it does now.
            if process is None or not (process.is_trainer or key in asked):
                continue
            head = self.head(process, thread)
            if head is None:
                continue
            dropped, cost = totals.get(key, (0, 0))
            totals[key] = (dropped + head.dropped, cost + head.cost_ns)
            if thread == process.loop_thread:
                process.loop_head = head
                process.last_head_step = head.step
                process.last_open = self.open_spans(process, head)
                process.last_phase = head.phase.phase_name if head.phase else None
        for key, (dropped, cost) in totals.items():
            process = self.processes[key]
            if dropped > process.dropped:  # it works, but the spool is full
                process.last_progress = self._now()
            self.dropped += dropped - process.dropped
            process.dropped = dropped
            process.cost_ns = max(process.cost_ns, cost)

    def head(self, process: Process, thread: int = 0) -> HeadPage | None:
        """Read the head page of a thread now."""
        return read_head(self.spool / record.head_name(process.key, thread))

    def open_spans(self, process: Process, head: HeadPage) -> list[dict[str, str | int]]:
        """Return the open spans of a head as plain values, outermost first."""
        return [
            {
                "phase": span.phase_name,
                "name": self.facts.texts[process.names.get(span.name, 0)],
                "begin": self.clock.to_wall(span.begin),
            }
            for span in head.open
        ]

    def _bury(self, process: Process) -> list[RecordedEvent]:
        """Return events about the end of a dead process, and release its files."""
        self._buried.add(process.key)
        self.read_files += [(path, process.first_seen) for path in self.listing.paths(process.key)]
        events = [self._exit(process)]
        if process.dropped:
            detail = {"process": process.key, "records": process.dropped}
            events.append(
                RecordedEvent(events[0].time, self.ranks.of(process), "dropped", process.key, detail)
            )
        process.names.clear()
        self._rows.forget(process)
        if process.is_worker:
            self._cost_of_buried += process.cost_ns
            del self.processes[process.key], self._journals[process.key]
            for at in [at for at in self._threads if at[0] == process.key]:
                del self._threads[at]
        return events

    def _exit(self, process: Process) -> RecordedEvent:
        detail = {
            "process": process.key,
            "role": process.role,
            "worker": process.worker,
            "clean": process.end is not None,
            "step": process.last_head_step,
            "open": process.last_open,
        }
        when = process.died or self._now()
        return RecordedEvent(self.clock.to_wall(when), self.ranks.of(process), "exit", process.key, detail)
