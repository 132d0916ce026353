"""A job of holter's as SageMaker's profiler would have written it: readings, and events by phase."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.loading.loader_durations import lives
from holter.importers.kineto.event_args import mapping
from holter.importers.sagemaker.profiler import METRICS
from holter.importers.sagemaker.profiler_output import SUFFIXES
from holter.importers.sagemaker.profiler_source import ProfilerSource
from holter.schema.phases import ITERATOR_START
from holter.schema.table import Table
from holter.store.parquet.queries import literal
from holter.store.stretches import stretches
from holter.store.trial import Trial
from holter.views.document.cost import details

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from numpy.typing import NDArray

    from holter.store.documents import Document
    from holter.store.job import JobFolder

PHASES = {
    "forward": "Forward",
    "loss": "Loss",
    "backward": "Backward(post-forward)",
    "optimizer": "Optimizer",
    "h2d": "HostToDevice",
    "communication": "Collective",
    "checkpoint": "Checkpoint",
    "eval": "Evaluation",
    "annotation": "Annotation",
    "compile": "Compile",
    "gc": "GarbageCollection",
    "fetch": "DataLoaderFetch",
    "collate": "DataLoaderCollate",
}
"""smdebug's word for a phase of ours, where it has one, else a word like its own. Steps, data loading,
operators and kernels have words of their own, see below."""
_KINDS = {metric: kind for kind, metric in METRICS.items()}
_DEVICE_TYPES = ("cpu", "gpu")
_TABLES = ("spans", "operators", "kernels")
PIECE = 500_000
"""Rows that are read together."""


class Recorded(ProfilerSource):
    """A job's readings and events. A running job's grow from one question to the next."""

    def __init__(self, folder: JobFolder) -> None:
        self.folder = folder
        self._lanes: dict[str, int] = {}
        self.refresh()

    @property
    def skipped(self) -> Counter[str]:
        """Files that could not be read."""
        return Counter(f"{one['file']}: {one['why']}" for one in self.trial.skipped)

    def refresh(self) -> None:
        """See the files that are there now."""
        self.trial = Trial(self.folder)
        self.ended = self.trial.manifest.get("end") is not None
        self._range: dict[bool, tuple[int, int]] = {}

    def available(self, events: bool) -> tuple[int, int]:
        """Return when the first row began and the last one ended, microseconds; 0 without rows."""
        if events not in self._range:
            tables = _TABLES if events else ("samples",)
            ends = [self._ends(table) for table in tables]
            found = [end for end in ends if end is not None]
            low, high = min((e[0] for e in found), default=0), max((e[1] for e in found), default=0)
            self._range[events] = (low // 1000, -(-high // 1000))
        return self._range[events]

    def _ends(self, table: str) -> tuple[int, int] | None:
        until = "time" if table == "samples" else "time + duration"
        found = self.trial.sql(f"SELECT count(*) AS n, min(time) AS a, max({until}) AS b FROM {table}")  # noqa: S608
        return (int(found["a"][0]), int(found["b"][0])) if found["n"][0] else None

    def readings_in_pieces(
        self, start: int = 0, end: int | None = None, names: Collection[str] = ()
    ) -> Iterator[Table]:
        """Yield readings of the metrics that SageMaker knows, in stretches of time."""
        for begin, until in self._cut(("samples",), start, end):
            yield self._readings(begin, until, names)

    def _cut(self, tables: Sequence[str], start: int, end: int | None) -> Iterator[tuple[int, int | None]]:
        """Yield stretches of [start, end], ns, that hold about `PIECE` rows each; at least one."""
        until = None if end is None else end * 1000 + 1000
        found = stretches(self.trial, tables, PIECE, start_ns=start * 1000, end_ns=until)
        # What a microsecond holds stays together.
        inner = [begin // 1000 * 1000 for begin, _ in found[1:]]
        begins = [start * 1000, *inner]
        return zip(begins, [*inner, until], strict=True)

    def _readings(self, start_ns: int, end_ns: int | None, names: Collection[str]) -> Table:
        asked = " OR ".join(_named(metric, names) for metric in _KINDS)
        where = f"({asked}) AND NOT isnan(value)"
        rows = self.trial.table("samples", start_ns=start_ns, end_ns=end_ns, where=where)
        metrics, codes = np.unique(rows["metric"].astype(str), return_inverse=True)
        kinds = [_KINDS[metric] for metric in metrics.tolist()]
        type_ = _taken([kind for kind, _ in kinds], codes)
        own = _taken([name if kind not in _DEVICE_TYPES else "" for kind, name in kinds], codes)
        dimension = _taken([name if kind in _DEVICE_TYPES else "" for kind, name in kinds], codes)
        network = type_ == "network"
        dimension[network] = np.where(rows["device"][network] == "platform", "Platform", "Algorithm")
        return Table(
            {
                "time": rows["time"] // 1000,
                "type": type_,
                "name": np.where(own == "", rows["device"], own),
                "dimension": dimension,
                "value": rows["value"],
                "node": rows["node"],
            }
        )

    def events_in_pieces(
        self, start: int = 0, end: int | None = None, suffixes: Sequence[str] | None = None
    ) -> Iterator[Table]:
        """Yield steps, phases, data loading, operators and kernels, in stretches of time."""
        for begin, until in self._cut(_TABLES, start, end):
            first = begin == start * 1000  # what began before and reaches into it belongs to the first
            yield self._events(None if first else begin, until, start * 1000, suffixes)

    def _events(
        self, begin: int | None, until: int | None, since: int, suffixes: Sequence[str] | None
    ) -> Table:
        """Return what begins in [begin, until) and does not end before `since`, ns; None: wherever."""
        if suffixes is not None and SUFFIXES[0] not in suffixes:
            return _spans(Table.empty("spans"), {})
        where = f"time + duration >= {since}"
        made = zip(_TABLES, (self._spans, _operators, _kernels), strict=True)
        parts = [
            make(self.trial.table(name, start_ns=begin, end_ns=until, where=where)) for name, make in made
        ]
        found = Table.concat([*parts, self._workers(begin, until, since)]).sorted("start")
        pids = {one["rank"]: one["pid"] for one in self._facts("process") if _trains(one)}
        for phase in found["phase"].tolist():
            self._lanes.setdefault(phase, len(self._lanes) + 1)
        pid = np.array([pids.get(rank, rank) for rank in found["pid"].tolist()], np.int64)
        lane = np.array([self._lanes[phase] for phase in found["phase"].tolist()], np.int64)
        return Table(found.columns | {"pid": pid, "lane": lane})

    def _facts(self, kind: str) -> list[Document]:
        return details(self.trial.table("events", where=f"kind = '{kind}'"), kind)

    def _spans(self, rows: Table) -> Table:
        loaders = {fact["rank"]: fact for fact in self._facts("loader")}
        return _spans(rows.where(~np.isin(rows["phase"], ["stack", "loop_stack", "scalar"])), loaders)

    def _workers(self, begin: int | None, until: int | None, since: int) -> Table:
        """Return the lives of the data loaders' workers, as far as they have ended."""
        events = self.trial.table("events", where="kind IN ('process', 'end', 'exit')")
        nodes = dict(zip(events["rank"].tolist(), events["node"].tolist(), strict=True))
        found = lives(events)
        inside = found["end"] >= since
        if begin is not None:
            inside &= found["begin"] >= begin
        if until is not None:
            inside &= found["begin"] < until
        found = found.where(inside)
        rows = Table(
            {
                "time": found["begin"],
                "duration": found["end"] - found["begin"],
                "rank": found["rank"],
                "node": np.array([nodes.get(rank, "") for rank in found["rank"].tolist()], object),
            }
        )
        word = np.full(rows.rows, "DataLoaderWorker", object)
        args = [{"worker_id": worker} for worker in found["worker"].tolist()]
        return _table(rows, word, word, found["worker"], args)


def _spans(rows: Table, loaders: dict[int, Document]) -> Table:
    phases, codes = np.unique(rows["phase"].astype(str), return_inverse=True)
    phase = _taken([PHASES.get(name, name) for name in phases.tolist()], codes)
    name = np.where(rows["name"] == "", phase, rows["name"])
    step = rows["phase"] == "step"
    phase[step] = [f"Step:ModeKeys.{mode.upper()}" for mode in rows["mode"][step].tolist()]
    name[step] = phase[step]
    args = _steps(rows)
    for row in np.flatnonzero(rows["worker"] >= 0).tolist():
        args[row]["worker_id"] = int(rows["worker"][row])
    for row in np.flatnonzero(rows["phase"] == "data_loading").tolist():
        known = loaders.get(int(rows["rank"][row]), {})
        args[row] |= {
            told: known[own]
            for told, own in (("num_workers", "workers"), ("pin_memory", "pin_memory"))
            if known.get(own) is not None
        }
        kind = "_MultiProcessingDataLoaderIter" if known.get("workers") else "_SingleProcessDataLoaderIter"
        starts = rows["name"][row] == ITERATOR_START
        phase[row] = "DataLoaderIterInitialize" if starts else "DataLoaderIter"
        name[row] = f"{kind}.__init__" if starts else f"{kind}::GetNext"
    return _table(rows, name, phase, rows["thread"].astype(np.int64), args)


def _steps(rows: Table) -> list[dict[str, object]]:
    """Return the arguments of events that say their steps."""
    return [{} if step < 0 else {"step_num": step} for step in rows["step"].tolist()]


def _operators(rows: Table) -> Table:
    rows = rows.where((rows["kind"] == "operator") | (rows["kind"] == "annotation"))
    kinds = rows["kind"].astype(str)
    phase = np.where(kinds == "operator", "cpu_functions", "Annotation").astype(object)
    details = zip(rows["detail"].tolist(), rows["thread"].tolist(), _steps(rows), strict=True)
    args = [mapping(text) | {"tid": thread, "device": "cpu"} | step for text, thread, step in details]
    return _table(rows, rows["name"], phase, rows["thread"], args)


def _kernels(rows: Table) -> Table:
    phase = np.array([f"gpu_functions-dev:{device}" for device in rows["device"].tolist()], object)
    places = zip(rows["stream"].tolist(), rows["device"].tolist(), _steps(rows), strict=True)
    args = [{"tid": stream, "device": device} | step for stream, device, step in places]
    return _table(rows, rows["name"], phase, rows["stream"].astype(np.int64), args)


def _table(
    rows: Table, name: NDArray[Any], phase: NDArray[Any], tid: NDArray[Any], args: list[dict[str, object]]
) -> Table:
    every = np.empty(rows.rows, object)
    every[:] = args
    ranks = rows["rank"].tolist()
    node = [f"{node}-{rank}" for node, rank in zip(rows["node"].tolist(), ranks, strict=True)]
    return Table(
        {
            "start": rows["time"] // 1000,
            "end": (rows["time"] + rows["duration"]) // 1000,
            "lane": np.zeros(rows.rows, np.int64),
            "pid": rows["rank"].astype(np.int64),
            "tid": tid,
            "name": name.astype(object),
            "phase": phase,
            "node": np.array(node, object),
            "suffix": np.full(rows.rows, SUFFIXES[0], object),
            "kind": np.full(rows.rows, "X", object),
            "args": every,
        }
    )


def _named(metric: str, names: Collection[str]) -> str:
    """Return the condition for readings of a metric whose name, as smdebug says it, is one of these."""
    kind, own = _KINDS[metric]
    asked = f"metric = {literal(metric)}"
    if not names:
        return asked
    if kind in _DEVICE_TYPES:
        return f"{asked} AND device IN ({', '.join(map(literal, names))})"
    return f"{asked} AND {own in names}"


def _trains(process: Document) -> bool:
    return process.get("role", "trainer") == "trainer" and isinstance(process.get("pid"), int)


def _taken(values: list[str], codes: NDArray[Any]) -> NDArray[Any]:
    return np.array(values, object)[codes] if values else np.empty(0, object)
