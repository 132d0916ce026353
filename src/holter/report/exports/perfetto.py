"""A merged timeline as Perfetto's own protobuf trace: smaller than JSON, and quicker to open."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain, count, repeat
from typing import TYPE_CHECKING, Any

from holter.report.exports import _merged, opened
from holter.report.exports._packets import Packets, argument, arrow
from holter.report.exports._tracks import TrackRow, Tracks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from holter.report.exports import ExportSelection
    from holter.schema.table import Table
    from holter.store.trial import Trial

ABOUT = "merged timeline as Perfetto's protobuf trace"
SUFFIX = ".perfetto-trace"
SHOW = "open {output} at https://ui.perfetto.dev"
NEEDS = _merged.NEEDS

_SLICES = ("spans", "operators", "launches", "syncs", "kernels", "memory_operations")
_LAUNCHED = ("kernels", "memory_operations")
_ARGUMENTS = {
    "spans": ("step",),
    "operators": ("step", "detail"),
    "launches": ("correlation",),
    "kernels": ("correlation", "collective", "process_group", "bytes", "detail"),
    "memory_operations": ("correlation", "memory", "bytes"),
}
"""Columns that become arguments of the slices of a table."""

Slice = tuple[int, int, int, str, str, bytes]
"""Track, begin, negative end, category, name, arguments."""


def write(trial: Trial, chosen: ExportSelection, output: Path) -> int:
    """Write the merged timeline of a job to a file; returns how many events it shows.

    Raises:
        OSError: The file cannot be written.
    """
    written = 0
    with opened(output) as file:
        packets = Packets(file, _merged.first_ns(trial, chosen))
        encoder = _Encoder(packets, Tracks(trial.table("tracks")))
        for tables in _merged.read(trial, chosen):
            written += encoder.encode(tables)
        packets.close()
    return written


class _Encoder:
    """Turns rows into packets, one time range after another."""

    def __init__(self, packets: Packets, tracks: Tracks) -> None:
        self._packets = packets
        self._tracks = tracks
        self._track = count(1).__next__
        self._rows: dict[TrackRow, int] = defaultdict(self._track)
        self._processes: dict[int, int] = defaultdict(self._track)
        self._counters: dict[tuple[int, str], int] = {}
        self._arrows = 0
        self._ends: dict[tuple[int, int], list[bytes]] = defaultdict(list)
        """Ends of arrows, by track and the time at which the operator begins that they lead to."""

    def encode(self, tables: dict[str, Table]) -> int:
        """Write rows; returns how many events they are."""
        arrows = self._flows(tables["flows"])
        slices = sorted(chain.from_iterable(self._slices(name, tables[name], arrows) for name in _SLICES))
        self._declare()
        for track, begin, end, category, name, more in slices:
            self._packets.slice(track, begin, -end, category, name, more)
        self._samples(tables["samples"])
        self._values(tables["counters"])
        return sum(table.rows for table in tables.values())

    def _declare(self) -> None:
        for named in self._tracks.fresh:
            if named.thread is None:
                track = self._processes[named.process]
                self._packets.process(track, named.process, named.name, named.position)
            else:
                row = TrackRow(named.process, named.thread)
                self._packets.row(self._rows[row], self._processes[named.process], named.name, named.position)
        self._tracks.fresh.clear()

    def _slices(self, name: str, table: Table, arrows: dict[tuple[int, int], list[bytes]]) -> Iterator[Slice]:
        if not table.rows:
            return
        begins, durations = table["time"].tolist(), table["duration"].tolist()
        arguments = [
            self._arguments(name, *row) for row in _merged.columns(table, *_ARGUMENTS.get(name, ()))
        ] or repeat(b"")
        if name in ("launches", *_LAUNCHED):
            ends = name in _LAUNCHED
            pairs = zip(table["correlation"].tolist(), table["rank"].tolist(), arguments, strict=True)
            arguments = [
                more + arrow(number << 20 | rank & 0xFFFFF, ends=ends) if number > 0 else more
                for number, rank, more in pairs
            ]
        tracks = (self._rows[row] for row in self._tracks.rows(name, table))
        rows = zip(begins, durations, tracks, *_words(name, table), arguments, strict=False)
        for begin, duration, track, category, called, more in rows:
            if name == "operators":
                for end in chain(arrows.pop((track, begin), ()), self._ends.pop((track, begin), ())):
                    more += end
            yield track, begin, -(begin + duration), category, called, more

    def _arguments(self, table: str, *values: Any) -> bytes:
        named_values = zip(_ARGUMENTS[table], values, strict=True)
        return b"".join(argument(name, value) for name, value in named_values if value not in ("", 0, -1))

    def _flows(self, table: Table) -> dict[tuple[int, int], list[bytes]]:
        """Number arrows; returns their begins, by track and time, and keeps their ends for later."""
        begins: dict[tuple[int, int], list[bytes]] = defaultdict(list)
        columns = ("time", "duration", "node", "rank", "thread", "target")
        for time, duration, node, rank, thread, target in _merged.columns(table, *columns):
            self._arrows += 1
            number = 1 << 63 | self._arrows
            source, end = (self._rows[self._tracks.thread(node, rank, which)] for which in (thread, target))
            begins[source, time].append(arrow(number))
            self._ends[end, time + duration].append(arrow(number, ends=True))
        return begins

    def _samples(self, table: Table) -> None:
        columns = ("time", "node", "device", "metric", "value")
        for time, node, device, metric, value in _merged.columns(table, *columns):
            self._value(self._tracks.samples(node), f"{metric} {device}".rstrip(), time, value)

    def _values(self, table: Table) -> None:
        columns = ("time", "node", "rank", "process", "name", "value")
        for time, node, rank, process, name, value in _merged.columns(table, *columns):
            self._value(self._tracks.counters(node, rank, process), name, time, value)

    def _value(self, process: int, name: str, time: int, value: float) -> None:
        track = self._counters.get((process, name))
        if track is None:
            self._declare()
            track = self._counters[process, name] = self._track()
            self._packets.counter(track, self._processes[process], name)
        self._packets.value(track, time, value)


def _words(name: str, table: Table) -> tuple[Iterable[str], Iterable[str]]:
    """Return categories and names of the slices of a table."""
    if name == "spans":
        return table["phase"].tolist(), _merged.span_names(table)
    if name == "memory_operations":
        return repeat("memory"), table["kind"].tolist()
    if name == "operators":
        return table["kind"].tolist(), table["name"].tolist()
    category = {"launches": "launch", "syncs": "sync"}.get(name)
    return (repeat(category) if category else table["kind"].tolist()), table["name"].tolist()
