"""A merged timeline in Chrome's trace-event format, with the words of PyTorch's profiler.

Times are microseconds, exact to the nanosecond, since `baseTimeNanoseconds`.
"""

from __future__ import annotations

import heapq
import io
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.report.exports import _chrome_words, _merged, opened
from holter.report.exports._tracks import Tracks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from holter.report.exports import ExportSelection
    from holter.schema.table import Table
    from holter.store.trial import Trial

ABOUT = "merged timeline as Chrome's trace events, for Perfetto, chrome://tracing and others"
SUFFIX = ".trace.json"
SHOW = "open {output} at https://ui.perfetto.dev"
NEEDS = _merged.NEEDS


def write(trial: Trial, chosen: ExportSelection, output: Path) -> int:
    """Write the merged timeline of a job to a file; returns how many events it shows.

    Events are in the order of time. A file of one rank says which it is, and so is read as that rank again.

    Raises:
        OSError: The file cannot be written.
    """
    ranks = sorted(
        int(rank) for rank in trial.sql(_RANKS)["rank"] if chosen.ranks is None or rank in chosen.ranks
    )
    base = _merged.first_ns(trial, chosen)
    encoder = _Encoder(Tracks(trial.table("tracks")), base, chosen.low_gpu_pct)
    header = {"displayTimeUnit": "ms", "baseTimeNanoseconds": base, "job": trial.folder.name}
    own = {"distributedInfo": {"rank": ranks[0]}} if len(ranks) == 1 else {}
    with opened(output) as binary, io.TextIOWrapper(binary, "utf-8", "replace", newline="\n") as file:
        file.write(json.dumps(header | own)[:-1] + ', "traceEvents": [\n')
        separator = ""
        for line in encoder.lines(_merged.read(trial, chosen)):
            file.write(separator + line)
            separator = ",\n"
        file.write("\n]}\n")
    return encoder.written


_RANKS = " UNION ".join(
    f"SELECT DISTINCT rank FROM {table}"  # noqa: S608
    for table in _merged.TABLES
    if table != "samples"
)


class _Encoder:
    """Turns rows into lines, one time range after another."""

    def __init__(self, tracks: Tracks, base: int, low_gpu_pct: float | None) -> None:
        self._tracks = tracks
        self._base = base
        self._low_gpu_pct = low_gpu_pct
        self._texts: dict[str, str] = {}
        self.written = 0
        """Number of events."""
        self._arrows = 0
        self._ends: list[tuple[int, str]] = []
        """Ends of arrows in later time ranges, the next one first."""

    def lines(self, stretches: Iterable[dict[str, Table]]) -> Iterator[str]:
        """Yield the lines of all rows, in the order of time."""
        for tables in stretches:
            self.written += sum(table.rows for table in tables.values())
            yield from self._lines(self._encoded(tables))
        yield from self._lines(sorted(self._ends))

    def _encoded(self, tables: dict[str, Table]) -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = []
        for name, table in tables.items():
            if table.rows:
                found += getattr(self, f"_{name}")(table)
        last = max((at for at, _ in found), default=0)
        while self._ends and self._ends[0][0] <= last:
            found.append(heapq.heappop(self._ends))
        found.sort(key=lambda pair: pair[0])
        return found

    def _lines(self, found: Iterable[tuple[int, str]]) -> Iterator[str]:
        for named in self._tracks.fresh:
            what = "process" if named.thread is None else "thread"
            place = f'"pid":{named.process},"tid":{named.thread or 0}'
            yield f'{{"ph":"M","name":"{what}_name",{place},"args":{{"name":{self._text(named.name)}}}}}'
            yield f'{{"ph":"M","name":"{what}_sort_index",{place},"args":{{"sort_index":{named.position}}}}}'
        self._tracks.fresh.clear()
        yield from (line for _, line in found)

    def _text(self, text: str) -> str:
        quoted = self._texts.get(text)
        if quoted is None:
            if len(self._texts) > 1 << 20:
                self._texts.clear()
            quoted = self._texts[text] = json.dumps(text)
        return quoted

    def _slices(
        self,
        table: Table,
        places: Iterable[str],
        cats: Iterable[str],
        names: Iterable[str],
        args: Iterable[str],
    ) -> Iterator[tuple[int, str]]:
        times, durations = table["time"].tolist(), table["duration"].tolist()
        rows = zip(times, durations, places, cats, names, args, strict=True)
        for time, duration, place, cat, name, arg in rows:
            yield (
                time,
                f'{{"ph":"X","cat":{self._text(cat)},"name":{self._text(name)},{place},'
                f'"ts":{_us(time - self._base)},"dur":{_us(duration)},"args":{{{arg}}}}}',
            )

    def _arrow(self, ph: str, cat: str, number: int | str, time: int, place: str) -> tuple[int, str]:
        end = ',"bp":"e"' if ph == "f" else ""
        head = f'{{"ph":"{ph}","cat":{self._text(cat)},"name":{self._text(cat)},"id":{number}'
        return time, f'{head},{place},"ts":{_us(time - self._base)}{end}}}'

    def _launched(self, table: Table, ph: str, places: list[str]) -> Iterator[tuple[int, str]]:
        columns = _merged.columns(table, "correlation", "rank", "time")
        for (correlation, rank, time), place in zip(columns, places, strict=True):
            if correlation > 0:
                yield self._arrow(ph, "ac2g", correlation + (max(rank, 0) << 40), time, place)

    def _threads(self, table: Table) -> list[str]:
        return self._places(table, self._tracks.thread, ("node", "rank", "thread"))

    def _streams(self, table: Table) -> list[str]:
        return self._places(table, self._tracks.stream, ("node", "rank", "device", "stream"))

    @staticmethod
    def _places(table: Table, place: Any, columns: tuple[str, ...]) -> list[str]:
        known: dict[tuple[Any, ...], str] = {}
        found = []
        for key in _merged.columns(table, *columns):
            if key not in known:
                row = place(*key)
                known[key] = f'"pid":{row.process},"tid":{row.thread}'
            found.append(known[key])
        return found

    def _spans(self, table: Table) -> Iterator[tuple[int, str]]:
        places = self._places(table, self._tracks.phases, ("node", "rank", "worker", "thread"))
        args = [
            f'"step":{step}' + (f',"value":{value!r}' if math.isfinite(value) else "")
            for step, value in _merged.columns(table, "step", "value")
        ]
        yield from self._slices(
            table, places, ["user_annotation"] * table.rows, _merged.span_names(table), args
        )

    def _operators(self, table: Table) -> Iterator[tuple[int, str]]:
        kinds = table["kind"].tolist()
        args = [_merged.details(text) for text in table["detail"].tolist()]
        places = self._threads(table)
        for row in np.flatnonzero(np.isin(table["kind"], ["device_annotation", "device_wait"])).tolist():
            places[row] = self._over_stream(
                table["node"][row], int(table["rank"][row]), args[row], places[row]
            )
        yield from self._slices(
            table, places, [_chrome_words.CATEGORIES.get(k, k) for k in kinds], table["name"].tolist(), args
        )

    def _over_stream(self, node: str, rank: int, arg: str, place: str) -> str:
        try:
            where = json.loads("{" + arg + "}")
            row = self._tracks.stream(node, rank, int(where["device"]), int(where["stream"]))
        except (ValueError, KeyError, TypeError):
            return place
        return f'"pid":{row.process},"tid":{row.thread}'

    def _launches(self, table: Table) -> Iterator[tuple[int, str]]:
        places = self._threads(table)
        args = [f'"correlation":{correlation}' for correlation in table["correlation"].tolist()]
        yield from self._slices(table, places, ["cuda_runtime"] * table.rows, table["name"].tolist(), args)
        yield from self._launched(table, "s", places)

    def _syncs(self, table: Table) -> Iterator[tuple[int, str]]:
        names = [name or kind for name, kind in _merged.columns(table, "name", "kind")]
        args = [f'"waits for":"{kind}"' for kind in table["kind"].tolist()]
        yield from self._slices(table, self._threads(table), ["cuda_runtime"] * table.rows, names, args)

    def _kernels(self, table: Table) -> Iterator[tuple[int, str]]:
        places = self._streams(table)
        args = _chrome_words.kernel_args(table, self._text)
        yield from self._slices(table, places, ["kernel"] * table.rows, table["name"].tolist(), args)
        yield from self._launched(table, "f", places)

    def _memory_operations(self, table: Table) -> Iterator[tuple[int, str]]:
        places = self._streams(table)
        names, cats, args = _chrome_words.copies(table)
        yield from self._slices(table, places, cats, names, args)
        yield from self._launched(table, "f", places)

    def _counters(self, table: Table) -> Iterator[tuple[int, str]]:
        columns = ("time", "node", "rank", "process", "name", "value")
        for time, node, rank, process, name, value in _merged.columns(table, *columns):
            yield from self._value(time, self._tracks.counters(node, rank, process), name, value)

    def _samples(self, table: Table) -> Iterator[tuple[int, str]]:
        columns = ("time", "node", "device", "metric", "value")
        for time, node, device, metric, value in _merged.columns(table, *columns):
            yield from self._value(time, self._tracks.samples(node), f"{metric} {device}".rstrip(), value)
        if self._low_gpu_pct is not None:
            for time, node, args in _chrome_words.bottlenecks(table, self._low_gpu_pct, self._text):
                head = '{"ph":"i","s":"p","cat":"bottleneck","name":"sys_metrics_bottlenecks"'
                place = f'"pid":{self._tracks.samples(node)},"tid":0'
                yield time, f'{head},{place},"ts":{_us(time - self._base)},"args":{{{args}}}}}'

    def _value(self, time: int, process: int, name: str, value: float) -> Iterator[tuple[int, str]]:
        if math.isfinite(value):  # JSON has no words for what is not finite
            head = f'{{"ph":"C","name":{self._text(name)},"pid":{process},"tid":0'
            yield time, f'{head},"ts":{_us(time - self._base)},"args":{{"value":{value!r}}}}}'

    def _flows(self, table: Table) -> Iterator[tuple[int, str]]:
        columns = ("time", "duration", "node", "rank", "thread", "target", "kind")
        for time, duration, node, rank, thread, target, kind in _merged.columns(table, *columns):
            self._arrows += 1
            cat = "fwdbwd" if kind == "forward_backward" else kind
            ends = []
            for ph, at, number in (("s", time, thread), ("f", time + duration, target)):
                row = self._tracks.thread(node, rank, number)
                place = f'"pid":{row.process},"tid":{row.thread}'
                ends.append(self._arrow(ph, cat, self._arrows, at, place))
            yield ends[0]
            heapq.heappush(self._ends, ends[1])


def _us(nanoseconds: int) -> str:
    """Write nanoseconds as microseconds, exactly."""
    if nanoseconds < 0:
        return "-" + _us(-nanoseconds)
    whole, rest = divmod(nanoseconds, 1000)
    return f"{whole}.{rest:03d}" if rest else str(whole)
