"""One trace while it is read: its rows on disk, threads, steps and clock; then written to the job."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.importers.inferred_steps import inferred_steps
from holter.importers.kineto.threads import ThreadNumbers, whole, whole_or
from holter.importers.staging import Staging
from holter.schema.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from holter.importers.report import Report
    from holter.importers.staging import Text
    from holter.store.writer import Writer

NODE = "import"
_LATEST_NS = 1 << 62
_LONGEST_NS = 1 << 53
"""No event lasts longer than these 104 days: it is damage, and sums of such would be no number."""
MOST_BYTES = 1 << 50
"""More than that no copy and no message moves: it is damage."""
MOST_NAMES = 1_000_000
"""Names of threads that are kept, at most."""

_MANY = 50_000
"""So many rows of one trace are worth a file of their own."""
_UNTESTED = np.int8(-1)
_DEVICE_TABLES = ("kernels", "memory_operations")
_RANK_IN_NAME = re.compile(r"(?:^|[^a-z])(rank|worker|gpu|device|node)[-_.= ]?(\d{1,6})(?!\d)", re.IGNORECASE)
_WRITER_IN_NAME = re.compile(r"(.+_\d+)\.\d{10,19}\.pt\.trace\.json(?:\.gz)?")
"""The default names of files of PyTorch's handler: host, process and time."""


class Trace:
    """What one file holds. Times given to it are nanoseconds on the file's own clock."""

    def __init__(
        self,
        path: Path,
        report: Report,
        on_read: Callable[[str, int, int], None] | None = None,
        folder: Path | None = None,
    ) -> None:
        self.path = path
        self.staging = Staging(folder)
        self.skipped: Counter[str] = Counter()
        self.omitted = report.omitted
        self.notes: list[str] = []
        self.facts: dict[str, object] = {}
        self.rank: int | None = None
        """The rank, where the file itself says it."""
        writer = _WRITER_IN_NAME.fullmatch(path.name)
        self.owner = writer[1] if writer else ""
        """Who wrote the file, where its name says it: files of one writer are of one rank."""
        self.node = NODE
        """The machine it was written on."""
        self.cpus = 0
        """How many cores that machine has, where the file tells; 0 for not."""
        self._offset_ns = 0
        self.events = 0
        self._on_read = on_read
        self._steps: dict[tuple[str, int], tuple[int, int, str]] = {}
        self.threads = ThreadNumbers()
        self.named: set[tuple[str | None, Any, Any]] = set()
        """What was named already: kind of name, process, thread."""
        self._streams: set[tuple[int, int]] = set()
        self._names: dict[tuple[str, str | None], list[Any]] = {}
        self._passed: dict[Callable[[str], object], tuple[Any, NDArray[np.int8]]] = {}
        self._first: int | None = None
        self.last = 0
        """When the last of the rows so far ends, on the file's clock."""

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs to write the rows."""
        return {**vars(self), "_on_read": None, "_passed": {}}

    @property
    def offset_ns(self) -> int:
        """What to add to the file's clock for time since the epoch; not taken where no clock shows it."""
        return self._offset_ns

    @offset_ns.setter
    def offset_ns(self, offset: int) -> None:
        if abs(offset) < _LATEST_NS:
            self._offset_ns = offset
        else:
            self.skipped["a begin of its clock beyond all clocks"] += 1

    def progress(self, read: int) -> None:
        """Tell who shows progress how many bytes of the file were read; texts asked for before are void."""
        self.staging.relieve()
        if self._on_read is not None:
            self._on_read(str(self.path), read, self.path.stat().st_size)

    def lengths(self, duration: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return durations, negative ones as 0; counts these."""
        if (duration < 0).any():
            self.skipped["a duration below 0, taken as 0"] += int((duration < 0).sum())
        return duration.clip(0)

    def append(self, table: str, **columns: NDArray[Any]) -> None:
        """Take in rows; times that no clock shows are left out."""
        time = columns["time"]
        duration = columns.get("duration", np.zeros(1, np.int64))
        good = (time > -_LATEST_NS) & (time < _LATEST_NS) & (duration >= 0) & (duration < _LONGEST_NS)
        end = time + duration
        if "bytes" in columns:
            columns["bytes"] = columns["bytes"].clip(0, MOST_BYTES)
        if not good.all():
            self.skipped["a time outside of all clocks"] += int((~good).sum())
            columns = {name: column[good] for name, column in columns.items()}
            time, end = time[good], end[good]
        if not len(time):
            return
        self._seen(int(time.min()), int(end.max()))
        self.staging.append(table, **columns)

    def _seen(self, first: int, last: int) -> None:
        self.last = last if self._first is None else max(self.last, last)
        self._first = first if self._first is None else min(self._first, first)

    def text(self, texts: Sequence[Text]) -> NDArray[np.int32]:
        """Return the numbers of texts, for a column of text."""
        return self.staging.texts.codes(texts, np.int32)

    def texts_that(self, test: Callable[[str], object], codes: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Tell of a column's texts, by their numbers, which pass a test; each is tested once."""
        texts = self.staging.texts
        of, known = self._passed.get(test, (texts, np.zeros(0, np.int8)))
        if of is not texts:
            known = np.zeros(0, np.int8)
        if len(known) < len(texts):
            known = np.concatenate((known, np.full(len(texts) - len(known), _UNTESTED)))
        new = codes[known[codes] == _UNTESTED]
        if len(new):
            new, listed = np.unique(new), self.staging.listed()
            known[new] = [bool(test(listed[code])) for code in new.tolist()]
        self._passed[test] = texts, known
        passed: NDArray[np.bool_] = known[codes] == 1
        return passed

    def same(self, text: str, rows: int) -> NDArray[np.int32]:
        """Return a column that says one text in each row."""
        return np.full(rows, self.staging.texts[text], np.int32)

    def stream(self, device: int, stream: int) -> None:
        """Take in that something ran on a stream of a device; -1 for an unknown stream."""
        self._streams.add((min(max(device, -1), 2**15 - 1), min(max(stream, -1), 2**31 - 1)))

    def name(self, process: Any, thread: Any, text: str, position: int | None) -> None:
        """Take in what a thread is called and where it stands; of a process, with None for the thread."""
        key = (str(process), None if thread is None else str(thread))
        if key in self._names or len(self._names) < MOST_NAMES:
            known = self._names.setdefault(key, ["", 0])
            known[0] = text or known[0]
            known[1] = known[1] if position is None else position

    def step(self, number: int, begin: int, end: int, name: str, mode: str = "train") -> None:
        """Take in when a step was; of a step that comes twice, the first."""
        self._steps.setdefault((mode, number), (begin, end, name))

    def _infer_steps(self) -> None:
        found = inferred_steps(self.staging)
        if found is not None:
            for number, (begin, end) in enumerate(zip(found.begin.tolist(), found.end.tolist(), strict=True)):
                self.step(number, begin, end, found.name)
            self.notes.append(f"the trace marks no steps; {len(found.begin)} steps are {found.name}")

    def write(self, writer: Writer, rank: int, report: Report) -> None:
        """Write all rows: on the clock of the epoch, with their rank and step."""
        if not self._steps:
            self._infer_steps()
        steps = sorted(
            (begin, end, number, mode, name) for (mode, number), (begin, end, name) in self._steps.items()
        )
        begins, ends, numbers = (np.array([step[n] for step in steps], np.int64) for n in range(3))

        def by_time(time: NDArray[np.int64]) -> NDArray[np.int32]:
            return _within(time, begins, ends, numbers)

        by_launch = self._by_launch(by_time) if steps else None
        for table in self.staging.rows:
            has = {column.name for column in TABLES[table].columns}
            for rows in self.staging.read(table):
                if "step" in has and steps:
                    rows["step"] = by_time(rows["time"])
                    if by_launch is not None and table in _DEVICE_TABLES:
                        known = by_launch(rows["correlation"])
                        rows["step"] = np.where(rows["correlation"] > 0, known, rows["step"])
                rows["time"] = rows["time"] + self.offset_ns
                if "rank" in has:
                    rows["rank"] = np.full(len(rows["time"]), rank, np.int32)
                writer.append(table, rows)
                report.rows[table] += len(rows["time"])
            if self.staging.rows[table] >= _MANY:
                writer.flush(table)  # what waits for rows of other traces is memory
        self._write_tracks(writer, rank, report)
        if steps:
            self._seen(int(begins.min()), int(ends.max()))
            writer.append(
                "spans",
                {
                    "time": begins + self.offset_ns,
                    "duration": ends - begins,
                    "rank": [rank] * len(steps),
                    "step": numbers,
                    "mode": [step[3] for step in steps],
                    "phase": ["step"] * len(steps),
                    "name": [step[4] for step in steps],
                },
            )
            report.rows["spans"] += len(steps)
        if self._first is not None:
            first, last = self._first + self.offset_ns, self.last + self.offset_ns
            report.start_ns = first if report.start_ns is None else min(report.start_ns, first)
            report.end_ns = last if report.end_ns is None else max(report.end_ns, last)

    def _write_tracks(self, writer: Writer, rank: int, report: Report) -> None:
        tracks: list[tuple[str, int, int, int, str, int]] = [
            ("process", whole_or(process), -1, -1, *self.called(process, None))
            for process in dict.fromkeys(process for process, _ in self.threads)
        ]
        for (process, thread), number in self.threads.items():
            name, position = self.called(process, thread)
            name = name or (str(thread) if thread is not None and whole(thread) is None else "")
            tracks.append(("thread", whole_or(process), number, -1, name, position))
        devices = {device for device, _ in self._streams}
        tracks += [("device", device, -1, device, *self.called(device, None)) for device in devices]
        for device, stream in self._streams:
            if stream >= 0:
                called = max(self.called(device, stream), self.called(device, f"stream {stream}"))
                tracks.append(("stream", device, stream, device, *called))
        if not tracks:
            return
        columns: list[list[Any]] = [list(column) for column in zip(*sorted(tracks), strict=True)]
        columns[-1] = [max(-(2**31), min(position, 2**31 - 1)) for position in columns[-1]]
        told = dict(zip(("kind", "process", "thread", "device", "name", "position"), columns, strict=True))
        when = [(self._first or 0) + self.offset_ns] * len(tracks)
        writer.append("tracks", {**told, "time": when, "rank": [rank] * len(tracks)})
        report.rows["tracks"] += len(tracks)

    def called(self, process: Any, thread: Any) -> tuple[str, int]:
        """Return what a thread is called so far and where it stands; of a process, with no thread."""
        name, position = self._names.get((str(process), None if thread is None else str(thread)), ("", 0))
        return name, position

    def _by_launch(self, by_time: Callable[[Any], Any]) -> Callable[[NDArray[np.int64]], Any] | None:
        """Return what tells steps of correlations: a kernel belongs to the step that launched it.

        Correlations are counted up as calls are made, so those of a step are a range. Where they are not
        (their ranges overlap), None: then time has to tell.
        """
        ranges: dict[int, tuple[int, int]] = {}
        for rows in self.staging.read("launches"):
            steps, correlations = by_time(rows["time"]), rows["correlation"]
            for step in np.unique(steps).tolist():
                own = correlations[(steps == step) & (correlations > 0)]
                if step >= 0 and len(own):
                    low, high = ranges.get(step, (int(own.min()), int(own.max())))
                    ranges[step] = (min(low, int(own.min())), max(high, int(own.max())))
        ordered = sorted((low, high, step) for step, (low, high) in ranges.items())
        if not ordered or any(a[1] >= b[0] for a, b in pairwise(ordered)):
            return None
        lows, highs, numbers = (np.array([r[n] for r in ordered], np.int64) for n in range(3))
        return lambda correlations: _within(correlations, lows, highs + 1, numbers)

    def rank_by_name(self) -> int | None:
        """Return the rank in the file's name, None without one. A machine's number is not a rank."""
        name = self.path.name
        found = [(word.lower(), number) for word, number in _RANK_IN_NAME.findall(name)]
        words = {word for word, _ in found}
        chosen = next((word for word in ("rank", "worker", "gpu", "device", "node") if word in words), "")
        if chosen not in ("rank", "") and ({"gpu", "device"} & words and "node" in words):
            return None  # the same of each machine
        number = next((number for word, number in reversed(found) if word == chosen), None)
        if chosen != "rank" and self.owner and self.owner.rpartition("_")[2] != number:
            return None  # it is part of what the machine is called
        return None if number is None else int(number)


def whole_numbers(values: Iterable[Any], default: int = -1) -> NDArray[np.int64]:
    """Return numbers from numbers and texts; `default` for anything else."""
    listed = values if isinstance(values, list) else list(values)
    try:
        array = np.array(listed)
        if array.dtype.kind == "i":
            return array.astype(np.int64)
    except (ValueError, OverflowError):
        pass
    return np.array([whole_or(value, default) for value in listed], np.int64)


def _within(
    time: NDArray[np.int64], begins: NDArray[np.int64], ends: NDArray[np.int64], numbers: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Return the number of the range that each value lies in; -1 for none."""
    at = np.searchsorted(begins, time, "right") - 1
    inside = (at >= 0) & (time < ends[at])
    return np.where(inside, numbers[at], np.int32(-1)).astype(np.int32)
