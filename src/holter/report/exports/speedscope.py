"""Exports host activity for speedscope: sampled stacks, and the calls of threads in traces."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from holter.analysis.host.python_functions import place
from holter.report.exports import _merged
from holter.store.parquet.queries import literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from holter.report.exports import ExportSelection
    from holter.store.documents import Document
    from holter.store.trial import Trial

ABOUT = "stacks of Python code, and threads of traces, for speedscope.app"
SUFFIX = ".speedscope.json"
SHOW = "npx speedscope {output}, or drop it on https://www.speedscope.app"
NEEDS = "stacks of Python code, or a trace (profile some steps: --python pyinstrument, or --operators)"
_CALLS = ("operator", "python", "module", "annotation", "runtime")
"""Kinds of operators that are calls of a thread."""
SCHEMA = "https://www.speedscope.app/file-format-schema.json"


class _File:
    """Frames by number, and profiles over them."""

    def __init__(self) -> None:
        self._frames: dict[str, int] = {}
        self.profiles: list[Document] = []
        self.written = 0

    def add(self, name: str, stacks: Iterable[tuple[list[str], int]]) -> None:
        """Add one profile: stacks, outermost function first, each with its nanoseconds."""
        samples, weights = [], []
        for stack, spent in stacks:
            if stack and spent > 0:
                samples.append([self._frames.setdefault(frame, len(self._frames)) for frame in stack])
                weights.append(spent)
        if samples:
            self.written += len(samples)
            self.profiles.append(
                {
                    "type": "sampled",
                    "name": name,
                    "unit": "nanoseconds",
                    "startValue": 0,
                    "endValue": sum(weights),
                    "samples": samples,
                    "weights": weights,
                }
            )

    def follow(self, name: str, calls: Iterable[tuple[int, int, str]]) -> None:
        """Add one profile of calls: begin and end in ns, and name, by begin and the longer first.

        A call that ends after the call around it is cut at the end of that call.
        """
        events: list[dict[str, str | int]] = []
        within: list[tuple[int, int]] = []
        first = None

        def close(until: int) -> None:
            while within and within[-1][0] <= until:
                at, frame = within.pop()
                events.append({"type": "C", "frame": frame, "at": at})

        for begin, end, called in calls:
            first = begin if first is None else first
            close(begin - first)
            frame = self._frames.setdefault(called, len(self._frames))
            events.append({"type": "O", "frame": frame, "at": begin - first})
            within.append((min([end - first, *(at for at, _ in within[-1:])]), frame))
            self.written += 1
        if first is None:
            return
        last = within[0][0]
        close(last)
        span = {"unit": "nanoseconds", "startValue": 0, "endValue": last}
        self.profiles.append({"type": "evented", "name": name, **span, "events": events})

    def document(self, name: str) -> Document:
        return {
            "$schema": SCHEMA,
            "name": name,
            "exporter": "holter",
            "activeProfileIndex": 0,
            "shared": {"frames": [_frame(frame) for frame in self._frames]},
            "profiles": self.profiles,
        }


def write(trial: Trial, chosen: ExportSelection, output: Path) -> int:
    """Write one file with a profile for each rank, data-loader worker and thread.

    Returns how many stacks and calls are in it. They are in the order of time. What cProfile found has no
    stacks; the format `pstats` is for that. Memory grows with the calls of one thread, and with the file.
    """
    file = _File()
    sampled = chosen.table(trial, "python_stacks")
    workers = chosen.table(trial, "spans", "phase = 'stack'")
    for rank in sorted(set(sampled["rank"].tolist())):
        mine = sampled.where(sampled["rank"] == rank)
        file.add(f"rank {rank}: sampled", _stacks(mine["stack"], mine["self_time"]))
    for rank, worker in sorted(set(_merged.columns(workers, "rank", "worker"))):
        mine = workers.where((workers["rank"] == rank) & (workers["worker"] == worker))
        who = f"loader worker {worker}" if worker >= 0 else "loading"
        file.add(f"rank {rank}: {who}", _stacks(mine["name"], mine["duration"]))
    for (rank, thread), calls in _threads(trial, chosen):
        file.follow(f"rank {rank}: thread {thread}", calls)
    if file.written:
        with output.open("w", encoding="utf-8") as out:
            json.dump(file.document(trial.folder.name), out, separators=(",", ":"))
    return file.written


def _threads(
    trial: Trial, chosen: ExportSelection
) -> Iterator[tuple[tuple[int, int], Iterable[tuple[int, int, str]]]]:
    """Yield each rank and thread with its operators, functions, ranges and runtime calls."""
    where = chosen.where("operators", timed=True) or "true"
    kinds = ", ".join(map(literal, _CALLS))
    rows = " UNION ALL ".join(
        f"SELECT rank, thread, time, duration, name FROM {table} WHERE {where}{only}"  # noqa: S608
        for table, only in (("operators", f" AND kind IN ({kinds})"), ("launches", ""), ("syncs", ""))
    )
    ask = partial(trial.sql, start_ns=chosen.start_ns, end_ns=chosen.end_ns)
    listed = ask(f"SELECT DISTINCT rank, thread FROM ({rows}) ORDER BY ALL")  # noqa: S608
    for rank, thread in zip(listed["rank"].tolist(), listed["thread"].tolist(), strict=True):
        mine = f"FROM ({rows}) WHERE rank = {rank} AND thread = {thread}"
        query = f"SELECT time, time + duration AS stop, name {mine} ORDER BY time, stop DESC"
        own = ask(query)
        calls = zip(own["time"].tolist(), own["stop"].tolist(), own["name"].tolist(), strict=True)
        yield (rank, thread), calls


def _stacks(names: Any, durations: Any) -> Iterable[tuple[list[str], int]]:
    for name, spent in zip(names.tolist(), durations.tolist(), strict=True):
        yield [frame for frame in name.split(";") if frame], spent


def _frame(name: str) -> Document:
    file, line, function = place(name)
    return {"name": name} if file == "~" else {"name": function, "file": file, "line": line}
