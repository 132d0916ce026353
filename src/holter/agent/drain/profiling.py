"""Passes orders for profiling windows to processes, and brings their results into the store."""

from __future__ import annotations

import os
import struct
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.agent.drain.windows import Fact, reader
from holter.agent.profilerconfig import VARIABLE, WatchedFile
from holter.schema import windows as page

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from holter.agent.drain.drain import Drain
    from holter.agent.drain.event_log import EventLog
    from holter.agent.drain.journal import Process, RecordedEvent
    from holter.store.writer import Writer

_WORDS = struct.Struct(f"={page.TEXT // 4}i")


@dataclass
class _Given:
    """An order on its way to the processes."""

    order: page.ProfilingOrder
    number: int
    at: float
    told: set[str] = field(default_factory=set)
    """Processes that have received it, or that it does not concern."""


class Profiling:
    """Windows of all processes of one spool."""

    def __init__(self, drain: Drain) -> None:
        self._drain = drain
        self._config = WatchedFile(os.environ.get(VARIABLE))
        self._seen: list[Any] = []
        self._given: list[_Given] = []
        """Orders, oldest first: one that comes before another was taken waits for it."""
        self._number = 0

    def obey(self, orders: list[Any], event_log: EventLog) -> None:
        """Take the orders of `control.json`, after those before; each once.

        A `profilerconfig.json` that has changed is such an order, too.
        """
        settings = self._config.changed()
        if settings is not None:
            told = {"file": self._config.path, "windows": len(settings.windows)}
            event_log.note("control", "profilerconfig", {**told, "problems": list(settings.problems)})
            self._give(page.ProfilingOrder(settings.windows, "profilerconfig", replace=True))
        new = [document for document in orders if document not in self._seen]
        self._seen = orders or self._seen  # no orders: the file could not be read
        for document in new:
            try:
                if not isinstance(document, dict):
                    raise ValueError(f"an order to profile is an object, not {document!r}")
                order = page.order_of(document)
            except ValueError as error:
                event_log.note("control", "profile refused", {"order": document, "why": str(error)})
                continue
            event_log.note("control", "profile", document)
            self._give(order)

    def _give(self, order: page.ProfilingOrder) -> None:
        if order.replace:
            self._given.clear()
        self._number += 1
        self._given.append(_Given(order, self._number, time.monotonic()))
        self.pass_on()

    def pass_on(self) -> None:
        """Write into the page of each process the oldest order that it has not taken."""
        now = time.monotonic()
        self._given = [given for given in self._given if now - given.at <= page.KEPT_S]
        if not self._given:
            return
        for process in self._drain.trainers():
            if process.died is not None:
                continue
            for given in self._given:
                if process.key not in given.told and not self._write(given, process):
                    break  # its page holds one order at a time
                given.told.add(process.key)

    def _write(self, given: _Given, process: Process) -> bool:
        """Write an order into one page; return whether the process has taken it, or never will."""
        order = given.order
        rank = self._drain.ranks.of(process)
        mine = [replace(one, rank=None) for one in order.requests if one.rank in (None, rank)]
        if not mine and not order.replace:
            return rank >= 0  # it may still learn its rank
        try:
            descriptor = os.open(self._drain.spool / page.orders_name(process.key), os.O_RDWR)
        except OSError:
            return False  # it records nothing yet
        try:  # not mapped, because the file can be truncated
            words = _WORDS.unpack(os.pread(descriptor, _WORDS.size, 0))
            if words[page.TAKEN] == given.number:
                return True
            if words[page.NUMBER] != given.number:
                text = replace(order, requests=tuple(mine)).to_text().encode()
                os.pwrite(descriptor, text, page.TEXT)
                _put(descriptor, page.LENGTH, len(text))
                _put(descriptor, page.NUMBER, given.number)
            _put(descriptor, page.WAKE, 0)  # again at each call: the process may just have written it
        except (OSError, struct.error):
            return True  # it was truncated: nothing can be asked of its process any more
        finally:
            os.close(descriptor)
        return False

    def take(self, events: Iterable[RecordedEvent], writer: Writer) -> list[RecordedEvent]:
        """Return events as they are, but for those of windows: their files become rows first."""
        return [event if event.kind != "window" else self._take(event, writer) for event in events]

    def _take(self, event: RecordedEvent, writer: Writer) -> RecordedEvent:
        detail = dict(event.detail)
        if bounds := detail.pop("bounds", None):
            detail["begin"], detail["end"] = (self._drain.clock.to_wall(bounds[at]) for at in (0, -1))
        if done := detail.get("done"):
            detail["done"] = self._drain.clock.to_wall(done)
        file = str(detail.pop("file", "") or "")
        name = "refused" if detail.get("refused") else str(detail.get("profiler", ""))
        if file and "/" not in file:
            path = self._drain.spool / file
            began = time.monotonic()
            self._drain.read_files.append((path, time.monotonic_ns()))
            try:
                detail["rows"] = self._read(path, event, writer)
            except Exception as error:
                name, detail["refused"] = "refused", f"{type(error).__name__}: {error}"
            detail["read_s"] = round(time.monotonic() - began, 3)
        return replace(event, name=name, detail=detail)

    def _read(self, path: Path, event: RecordedEvent, writer: Writer) -> dict[str, int]:
        """Bring one file into the store; return how many rows each table got."""
        said = event.detail
        fact = Fact(
            profiler=str(said["profiler"]),
            first_step=int(said["first_step"]),
            last_step=int(said["last_step"]),
            bounds=[int(when) for when in said["bounds"]],
            process=str(said["process"]),
            wall_minus_monotonic=int(said.get("wall_minus_monotonic") or 0),
            stop_ns=int(said.get("stop_ns", 1 << 62)),
        )
        counts = {}
        found = reader(str(said.get("format") or fact.profiler)).rows(path, fact, self._drain.clock)
        for table, columns in found.items():
            rows = len(columns["time"])
            if rows:
                writer.append(table, {**columns, "rank": np.full(rows, event.rank, np.int32)})
                writer.flush(table)
                counts[table] = rows
        return counts


def _put(descriptor: int, word: int, value: int) -> None:
    os.pwrite(descriptor, struct.pack("=i", value), 4 * word)
