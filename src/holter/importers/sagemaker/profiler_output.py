"""Read SageMaker's `profiler-output` as it was written: readings and events with all they carry, by time."""

from __future__ import annotations

import os
import re
import zlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holter.importers.kineto.trace_events import TraceEvents
from holter.importers.report import UnreadableError
from holter.importers.sagemaker.profiler import METADATA, lines
from holter.importers.sagemaker.profiler_lanes import EVENT, Lanes
from holter.importers.sagemaker.profiler_source import ProfilerSource
from holter.schema.table import Table
from holter.store.urls import place

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from holter.store.place import Entry

SUFFIXES = (
    "pythontimeline.json",
    "model_timeline.json",
    "horovod_timeline.json",
    "smdataparallel_timeline.json",
    "trace.json.gz",
)
"""Ends of the names of files with events: who wrote them."""
BUFFER_US = 180_000_000
"""Files are named after the time at which their last event ended, or nearly so: this far around is looked, or
as far as the environment's `TIME_BUFFER_MICROSECONDS` says."""

_SYSTEM = re.compile(r"(?:.*/)?system/(?:.*/)?(\d{10})\.(algo-\d+)\.json")
_EVENTS = re.compile(rf"(?:.*/)?pevents/(?:.*/)?(\d+)_(.+)_({'|'.join(map(re.escape, SUFFIXES[:4]))})")
_TENSORFLOW = re.compile(r"(?:.*/)?detailed_profiling/.*\.trace\.json\.gz")
_OWNER = re.compile(r"(\d+)-(algo-\d+)")
_ENDS = re.compile(r"(?:.*/)?(?:system|framework)/training_job_end\.ts")
_READING = {
    "time": np.int64,
    "type": object,
    "name": object,
    "dimension": object,
    "value": np.float64,
    "node": object,
}
"""Columns of readings, and their types."""


@dataclass(frozen=True, slots=True)
class TimedFile:
    """One file of readings or events. `time`: microseconds its name tells, 0 for none; `base` is added."""

    entry: Entry
    time: int
    node: str
    suffix: str
    base: int = 0


class ProfilerOutput(ProfilerSource):
    """A folder, or the prefix of an object store, that holds `system/` and `framework/`, or one of both.

    Files may come while it is open: `refresh` lists them. What cannot be read costs itself, and is counted
    in `skipped`.
    """

    def __init__(self, url: str) -> None:
        """List the files."""
        self.place = place(url)
        told = os.environ.get("TIME_BUFFER_MICROSECONDS", "")
        self.buffer = int(told) if told.isdecimal() else BUFFER_US
        self._kept: dict[str, tuple[str, Table]] = {}
        self._faults: dict[str, Counter[str]] = {}
        self.refresh()

    @property
    def skipped(self) -> Counter[str]:
        """What could not be read of the files that were, counted by why."""
        return sum(self._faults.values(), Counter())

    def refresh(self) -> None:
        """List the files anew; those that were read and did not change are not read again."""
        entries = self.place.files()
        self.ended = any(_ENDS.fullmatch(entry.key) for entry in entries)
        metadata: dict[str, tuple[str, int]] = {}
        for entry in entries:
            folder, _, name = entry.key.rpartition("/")
            if told := METADATA.fullmatch(name):
                metadata[folder] = (told[1], int(told[2]))
        self.system: list[TimedFile] = []
        self.framework: list[TimedFile] = []
        for entry in entries:
            key = f"{self.place.url}/{entry.key}"
            if system := _SYSTEM.fullmatch(key):
                self.system.append(TimedFile(entry, int(system[1]) * 1_000_000, system[2], ""))
            elif events := _EVENTS.fullmatch(key):
                self.framework.append(TimedFile(entry, int(events[1]), _node(events[2]), events[3]))
            elif _TENSORFLOW.fullmatch(key):
                owner, base = _told(metadata, entry.key)
                self.framework.append(TimedFile(entry, base, _node(owner), SUFFIXES[4], base))
        self.system.sort(key=lambda file: file.time)
        self.framework.sort(key=lambda file: file.time)

    def readings_in_pieces(
        self, start: int = 0, end: int | None = None, names: Collection[str] = ()
    ) -> Iterator[Table]:
        """Yield readings file by file, if asked for only of metrics with these names."""
        # A file is of a minute, or of more: the last one that begins before may reach into it.
        first = max((f.time for f in self.system if f.time <= start - self.buffer), default=0)
        last = 2**62 if end is None else end + self.buffer
        near = [f for f in self.system if first <= f.time <= last]
        self.place.fetch([file.entry for file in near])
        yield Table.of_tuples(_READING, [])
        for file in near:
            found = self._read(file)
            inside = (found["time"] >= start) & (found["time"] <= (2**62 if end is None else end))
            if names:
                inside &= np.array([name in names for name in found["name"].tolist()], bool)
            yield found.where(inside)

    def events_in_pieces(
        self, start: int = 0, end: int | None = None, suffixes: Sequence[str] | None = None
    ) -> Iterator[Table]:
        """Yield events file by file."""
        chosen = [f for f in self.framework if suffixes is None or f.suffix in suffixes]
        after = [f.time for f in chosen if end is not None and f.time > end + self.buffer]
        last = min(after, default=2**62)  # the first file behind may hold what began before
        # The name of a trace of TensorFlow's is its begin, so that it may hold what comes long after.
        near = [f for f in chosen if f.time <= last and (f.base or f.time >= start - self.buffer)]
        self.place.fetch([file.entry for file in near])
        yield Table.of_tuples(EVENT, [])
        for file in near:
            found = self._read(file)
            yield found.where((found["end"] >= start) & (found["start"] <= (2**62 if end is None else end)))

    def _read(self, file: TimedFile) -> Table:
        key = file.entry.key
        now = f"{file.entry.stamp} {file.base}"
        stamp, rows = self._kept.get(key, ("", Table.of_tuples(EVENT, [])))
        if stamp != now:  # it is new, has grown, or its begin became known
            faults = self._faults[key] = Counter()
            try:
                path = self.place.local(file.entry)
                rows = self._trace(path, file, faults) if file.suffix else self._lines(path, file, faults)
            except (OSError, UnreadableError, zlib.error) as error:
                faults[f"{key}: {error}"] += 1
                rows = Table.of_tuples(EVENT if file.suffix else _READING, [])
            self._kept[key] = (now, rows)
        return rows

    def available(self, events: bool) -> tuple[int, int]:
        """Return what the first and the last file of events, or of readings, are named after; 0 for none."""
        times = [file.time for file in (self.framework if events else self.system)]
        return (times[0], times[-1]) if times else (0, 0)

    def forget(self) -> None:
        """Let go of what was read."""
        self._kept.clear()

    def _lines(self, path: Path, file: TimedFile, faults: Counter[str]) -> Table:
        rows = [
            (round(r.timestamp * 1e6), r.type, r.name or "", r.dimension or "", r.value, r.node or file.node)
            for r in lines(path, faults)
        ]
        return Table.of_tuples(_READING, rows)

    def _trace(self, path: Path, file: TimedFile, faults: Counter[str]) -> Table:
        lanes = Lanes(file.node, file.suffix, file.base, faults)
        every = (event for events in TraceEvents(path, faults) for event in events)
        return Table.of_tuples(EVENT, [row for event in every if (row := lanes.take(event)) is not None])


def _node(owner: str) -> str:
    """Return who wrote a file so that lanes sort by machine: `<pid>-algo-1` is `algo-1-<pid>`."""
    told = _OWNER.fullmatch(owner)
    return f"{told[2]}-{told[1]}" if told else owner


def _told(metadata: dict[str, tuple[str, int]], key: str) -> tuple[str, int]:
    """Return a trace's owner and begin by the name of an empty file in its folder or above it."""
    folder = key
    while "/" in folder:
        folder = folder.rpartition("/")[0]
        if folder in metadata:
            return metadata[folder]
    return "", 0


def is_profiler_output(url: str) -> bool:
    """Tell whether a folder holds what SageMaker's profiler writes."""
    return any(_recognized(place(url).url, place(url).files()))


def _recognized(url: str, entries: Iterable[Entry]) -> Iterator[bool]:
    for entry in entries:
        key = f"{url}/{entry.key}"
        if _SYSTEM.fullmatch(key) or _EVENTS.fullmatch(key) or _TENSORFLOW.fullmatch(key):
            yield True
