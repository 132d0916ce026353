"""A merged timeline in Chrome's trace-event format, with the words of PyTorch's profiler.

Times are microseconds, exact to the nanosecond, since `baseTimeNanoseconds`.
"""

from __future__ import annotations

import heapq
import math
from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from holter.report.exports import _merged, opened
from holter.report.exports._tracks import TrackRow, Tracks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from holter.report.exports import ExportSelection
    from holter.schema.table import Table
    from holter.store.trial import Trial

    Line = tuple[int, bytes]
    """Time of an event, ns since the epoch, and the event as JSON."""

ABOUT = "merged timeline as Chrome's trace events, for Perfetto, chrome://tracing and others"
SUFFIX = ".trace.json"
SHOW = "open {output} at https://ui.perfetto.dev"
NEEDS = _merged.NEEDS
_RANKS = " UNION ".join(
    f"SELECT DISTINCT rank FROM {table}"  # noqa: S608
    for table in _merged.TABLES
    if table != "samples"
)
_CATEGORIES = {
    "operator": "cpu_op",
    "python": "python_function",
    "module": "python_function",
    "annotation": "user_annotation",
    "runtime": "cuda_runtime",
    "device_annotation": "gpu_user_annotation",
    "device_wait": "cuda_sync",
}
"""Categories of operators by their kind; other kinds are their own category."""

_COPIES = {"h": "Host", "d": "Device"}
_MEMORIES = {"pageable": "Pageable", "pinned": "Pinned"}
_SNAPSHOT_NS = 20_000_000
"""Readings that are closer than this belong together."""
_PLACE = ("device", "stream", "correlation")
_KERNEL = (*_PLACE, "collective", "process_group", "group_size", "bytes", "detail")
_OVER_STREAMS = ("device_annotation", "device_wait")
"""Kinds of operators that are drawn over a stream of an accelerator."""
_encode = msgspec.json.Encoder().encode


def write(trial: Trial, chosen: ExportSelection, output: Path) -> int:
    """Write the merged timeline of a job to a file; returns how many events it shows.

    Events are in the order of time. A file of one rank names the rank, so an import reads it as that rank.

    Raises:
        OSError: The file cannot be written.
    """
    ranks = [rank for rank in trial.sql(_RANKS)["rank"].tolist() if not chosen.ranks or rank in chosen.ranks]
    base = _merged.first_ns(trial, chosen)
    encoder = _Encoder(Tracks(trial.table("tracks")), base, chosen.low_gpu_pct)
    header = {"displayTimeUnit": "ms", "baseTimeNanoseconds": base, "job": trial.folder.name}
    own = {"distributedInfo": {"rank": ranks[0]}} if len(ranks) == 1 else {}
    with opened(output) as file:
        file.write(_encode(header | own)[:-1] + b',"traceEvents":[\n')
        separator = b""
        for line in encoder.lines(_merged.read(trial, chosen)):
            file.write(separator + line)
            separator = b",\n"
        file.write(b"\n]}\n")
    return encoder.written


class _Encoder:
    """Turns rows into lines, one time range after another."""

    def __init__(self, tracks: Tracks, base: int, low_gpu_pct: float | None) -> None:
        self._tracks = tracks
        self._base = base
        self._low_gpu_pct = low_gpu_pct
        self.written = 0
        """Number of events."""
        self._arrows = 0
        self._ends: list[Line] = []
        """Ends of arrows in later time ranges, the next one first."""

    def lines(self, stretches: Iterable[dict[str, Table]]) -> Iterator[bytes]:
        """Yield the lines of all rows, in the order of time; names of tracks come before their events."""
        for tables in stretches:
            found: list[Line] = []
            for name, table in tables.items():
                if table.rows:
                    self.written += table.rows
                    found += getattr(self, f"_{name}")(table)
            last = max((at for at, _ in found), default=0)
            while self._ends and self._ends[0][0] <= last:
                found.append(heapq.heappop(self._ends))
            for named in self._tracks.fresh:
                what = "process" if named.thread is None else "thread"
                track = {"ph": "M", "pid": named.process, "tid": named.thread or 0}
                yield _encode({**track, "name": f"{what}_name", "args": {"name": named.name}})
                sort = {"name": f"{what}_sort_index", "args": {"sort_index": named.position}}
                yield _encode({**track, **sort})
            self._tracks.fresh.clear()
            yield from (line for _, line in sorted(found, key=itemgetter(0)))
        yield from (line for _, line in sorted(self._ends))

    def _event(self, ph: str, time: int, track: TrackRow, name: str, **more: object) -> Line:
        event = {"ph": ph, "name": name, "pid": track.process, "tid": track.thread}
        return time, _encode({**event, "ts": _us(time - self._base), **more})

    def _slices(
        self,
        table: Table,
        tracks: Iterable[TrackRow],
        categories: Iterable[str],
        names: Iterable[str],
        args: Iterable[object],
    ) -> Iterator[Line]:
        times = _merged.columns(table, "time", "duration")
        rows = zip(times, tracks, categories, names, args, strict=False)
        for (time, duration), track, cat, name, arg in rows:
            yield self._event("X", time, track, name, cat=cat, dur=_us(duration), args=arg)

    def _arrow(self, ph: str, cat: str, number: int, time: int, track: TrackRow) -> Line:
        end = {"bp": "e"} if ph == "f" else {}
        return self._event(ph, time, track, cat, cat=cat, id=number, **end)

    def _launched(self, table: Table, ph: str, tracks: Sequence[TrackRow]) -> Iterator[Line]:
        columns = _merged.columns(table, "correlation", "rank", "time")
        for (correlation, rank, time), track in zip(columns, tracks, strict=True):
            if correlation > 0:
                yield self._arrow(ph, "ac2g", correlation + (max(rank, 0) << 40), time, track)

    def _spans(self, table: Table) -> Iterator[Line]:
        args = [
            {"step": step, "value": value} if math.isfinite(value) else {"step": step}
            for step, value in _merged.columns(table, "step", "value")
        ]
        tracks = self._tracks.rows("spans", table)
        return self._slices(table, tracks, repeat("user_annotation"), _merged.span_names(table), args)

    def _operators(self, table: Table) -> Iterator[Line]:
        tracks, args = self._tracks.rows("operators", table), []
        for at, (kind, detail, node, rank) in enumerate(
            _merged.columns(table, "kind", "detail", "node", "rank")
        ):
            arg = _merged.details(detail)
            args.append(arg)
            device, stream = arg.get("device"), arg.get("stream")
            if kind in _OVER_STREAMS and isinstance(device, int) and isinstance(stream, int):
                tracks[at] = self._tracks.stream(node, rank, device, stream)
        kinds = (_CATEGORIES.get(kind, kind) for kind in table["kind"].tolist())
        return self._slices(table, tracks, kinds, table["name"].tolist(), args)

    def _launches(self, table: Table) -> Iterator[Line]:
        tracks = self._tracks.rows("launches", table)
        args = ({"correlation": correlation} for correlation in table["correlation"].tolist())
        yield from self._slices(table, tracks, repeat("cuda_runtime"), table["name"].tolist(), args)
        yield from self._launched(table, "s", tracks)

    def _syncs(self, table: Table) -> Iterator[Line]:
        names = (name or kind for name, kind in _merged.columns(table, "name", "kind"))
        args = ({"waits for": kind} for kind in table["kind"].tolist())
        tracks = self._tracks.rows("syncs", table)
        return self._slices(table, tracks, repeat("cuda_runtime"), names, args)

    def _kernels(self, table: Table) -> Iterator[Line]:
        tracks, args = self._tracks.rows("kernels", table), _kernel_args(table)
        yield from self._slices(table, tracks, repeat("kernel"), table["name"].tolist(), args)
        yield from self._launched(table, "f", tracks)

    def _memory_operations(self, table: Table) -> Iterator[Line]:
        tracks = self._tracks.rows("memory_operations", table)
        names, cats, args = _copy_events(table)
        yield from self._slices(table, tracks, cats, names, args)
        yield from self._launched(table, "f", tracks)

    def _counters(self, table: Table) -> Iterator[Line]:
        columns = ("time", "node", "rank", "process", "name", "value")
        for time, node, rank, process, name, value in _merged.columns(table, *columns):
            yield from self._value(time, self._tracks.counters(node, rank, process), name, value)

    def _samples(self, table: Table) -> Iterator[Line]:
        columns = ("time", "node", "device", "metric", "value")
        for time, node, device, metric, value in _merged.columns(table, *columns):
            yield from self._value(time, self._tracks.samples(node), f"{metric} {device}".rstrip(), value)
        if self._low_gpu_pct is not None:
            name = "sys_metrics_bottlenecks"
            for time, node, args in _bottlenecks(table, self._low_gpu_pct):
                track = TrackRow(self._tracks.samples(node), 0)
                yield self._event("i", time, track, name, s="p", cat="bottleneck", args=args)

    def _value(self, time: int, process: int, name: str, value: float) -> Iterator[Line]:
        if math.isfinite(value):  # JSON has no words for other values
            yield self._event("C", time, TrackRow(process, 0), name, args={"value": value})

    def _flows(self, table: Table) -> Iterator[Line]:
        columns = ("time", "duration", "node", "rank", "thread", "target", "kind")
        for time, duration, node, rank, thread, target, kind in _merged.columns(table, *columns):
            self._arrows += 1
            cat = "fwdbwd" if kind == "forward_backward" else kind
            source, end = (self._tracks.thread(node, rank, number) for number in (thread, target))
            yield self._arrow("s", cat, self._arrows, time, source)
            heapq.heappush(self._ends, self._arrow("f", cat, self._arrows, time + duration, end))


def _kernel_args(table: Table) -> Iterator[dict[str, object]]:
    """Yield the arguments of kernels."""
    for device, stream, correlation, collective, group, size, moved, detail in _merged.columns(
        table, *_KERNEL
    ):
        args: dict[str, object] = {"device": device, "stream": stream, "correlation": correlation}
        if collective:
            args["Collective name"] = collective
        if group:
            args["Process Group Name"] = group
        if size:
            args["Group size"] = size
        if moved:
            # The table holds bytes; written as elements of one byte they are read as such again.
            args |= {"In msg nelems": moved, "Out msg nelems": moved, "dtype": "Byte"}
        yield args | _merged.details(detail)


def _copy_events(table: Table) -> tuple[list[str], list[str], list[dict[str, int]]]:
    """Return names, categories and arguments of copies and fills."""
    names, categories, args = [], [], []
    columns = _merged.columns(table, "kind", "memory", "device", "stream", "correlation", "bytes")
    for kind, memory, device, stream, correlation, moved in columns:
        names.append(_copy_name(kind, memory))
        categories.append("gpu_memset" if kind == "memset" else "gpu_memcpy")
        args.append({"device": device, "stream": stream, "correlation": correlation, "bytes": moved})
    return names, categories, args


def _bottlenecks(samples: Table, below: float) -> Iterator[tuple[int, str, dict[str, float]]]:
    """Find readings of how busy a GPU is that are below a share in percent.

    Yields:
        Time in ns, node, and the values that were read there within 20 ms, by metric and device.
    """
    for node in dict.fromkeys(samples["node"].tolist()):
        own = samples.where(samples["node"] == node)
        times = own["time"]
        low = np.flatnonzero((own["metric"] == "gpu.util") & (own["value"] < below))
        for at in dict.fromkeys(times[low].tolist()):
            first, last = np.searchsorted(times, [at - _SNAPSHOT_NS, at + _SNAPSHOT_NS + 1])
            near = own.where(slice(int(first), int(last)))
            columns = _merged.columns(near, "metric", "device", "value")
            yield (
                at,
                node,
                {f"{metric} {device}".rstrip(): v for metric, device, v in columns if math.isfinite(v)},
            )


def _copy_name(kind: str, memory: str) -> str:
    """Return the name of a copy or fill in PyTorch's profiler."""
    if kind == "memset":
        return "Memset (Device)"
    ends = [_COPIES.get(kind[:1], "Device"), _COPIES.get(kind[-1:], "Device")]
    if kind == "p2p":
        return "Memcpy PtoP (Device -> Device)"
    shown = [_MEMORIES.get(memory, "Host") if end == "Host" else end for end in ends]
    return f"Memcpy {ends[0][0]}to{ends[1][0]} ({shown[0]} -> {shown[1]})"


def _us(nanoseconds: int) -> msgspec.Raw:
    """Return nanoseconds as a JSON number of microseconds, which a float holds exactly for 50 days only."""
    whole, rest = divmod(abs(nanoseconds), 1000)
    sign = "-" if nanoseconds < 0 else ""
    return msgspec.Raw(f"{sign}{whole}.{rest:03d}".encode() if rest else f"{sign}{whole}".encode())
