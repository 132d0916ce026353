"""How fast traces are analysed from the store: breakdown, overlap, top kernels; a thousand ranks compared.

`kernels.py` generates all; `kernels.py TRACE` measures the first part on that trace too. CPU seconds,
all threads together; the best of several runs.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from machine import described

from holter.analysis.device.kernel_statistics import kernel_table
from holter.analysis.device.rank_summary import RankPart, rank_parts, rank_summary
from holter.analysis.device.time_breakdown import time_breakdown
from holter.importers import import_paths
from holter.store import job
from holter.store.trial import Trial
from holter.store.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.store.job import JobFolder

NAMES = [f"void at::native::kernel_{i}<float>" for i in range(48)]
COLUMNS = {
    "kernels": ("time", "duration", "rank", "device", "stream", "name", "kind", "correlation"),
    "memory_operations": ("time", "duration", "rank", "device", "stream", "kind", "correlation"),
}
RANK_COLUMNS = {**COLUMNS, "kernels": (*COLUMNS["kernels"], "collective", "process_group")}
RANKS_AT_ONCE = 256
SHARE_OF_KERNELS = 0.1
"""Of the events of a trace: the rest are operators, launches, arrows (22,290 of 216,092 in one)."""


def main() -> None:
    """Measure, and print one Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", nargs="*", type=Path)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--ranks", type=int, default=1024)
    given = parser.parse_args()
    print(f"{described()}\n\n| what | CPU s | wall s | peak MB | target |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as store:
        for number, trace in enumerate(given.traces):
            folder = _job(store, f"trace{number}")
            report = import_paths([trace], folder)
            _row(f"{trace.name}: {report.events:,} events", "≤ 0.05", _analyse(folder))
        folder = generated(store, "large", given.events)
        _row(f"generated: {given.events:,} events", "≤ 1", _analyse(folder))
    with tempfile.TemporaryDirectory() as store:
        folder = ranks(store, given.ranks)
        _row(
            f"{given.ranks:,} ranks of 15,000 events compared", "≤ 15, ≤ 500 MB", lambda: _compare(folder), 1
        )


def _row(what: str, target: str, run: Callable[[], object], times: int = 5) -> None:
    best = (float("inf"), float("inf"))
    for _ in range(times):
        wall, cpu = time.perf_counter(), time.process_time()
        run()
        best = min(best, (time.process_time() - cpu, time.perf_counter() - wall))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"| {what} | {best[0]:.3f} | {best[1]:.3f} | {peak:.0f} | {target} |", flush=True)


def _analyse(folder: JobFolder) -> Callable[[], object]:
    """Return what reads and analyses an open job; opening DuckDB takes some 20 ms more, once a process."""
    trial = Trial(folder, threads=1)

    def run() -> object:
        tables = {name: trial.table(name, columns=columns) for name, columns in COLUMNS.items()}
        return time_breakdown(tables), kernel_table(tables, most=15)

    return run


def _compare(folder: JobFolder) -> object:
    trial = Trial(folder, threads=1)
    parts: list[RankPart] = []
    count = int(trial.sql("SELECT max(rank) AS n FROM kernels")["n"][0]) + 1
    for first in range(0, count, RANKS_AT_ONCE):
        where = f"rank >= {first} AND rank < {first + RANKS_AT_ONCE}"
        read = {n: trial.table(n, columns=columns, where=where) for n, columns in RANK_COLUMNS.items()}
        parts += rank_parts(read)
    found = rank_summary(parts)
    if len(found.ranks) != count or [late.rank for late in found.late] != [count // 2]:
        raise SystemExit(f"{len(found.ranks)} ranks, late: {found.late}: that is not what was generated")
    return found


def _job(store: str, name: str) -> JobFolder:
    return job.create(store, name, command=[], interval_ms=500, rules=[], now_ns=0)


def kernels(random: np.random.Generator, count: int, start: int, rank: int) -> dict[str, Any]:
    """Return `count` kernels on two streams, one in ten a collective."""
    step = random.integers(5_000, 80_000, count)
    time_ = start + np.cumsum(step)
    collective = np.arange(count) % 10 == 9
    code = np.where(collective, len(NAMES), random.integers(0, len(NAMES), count))
    return {
        "time": time_,
        "duration": (step * random.uniform(0.3, 1.2, count)).astype(np.int64),
        "rank": np.full(count, rank),
        "stream": np.where(collective, 14, 7),
        "name": (code, [*NAMES, "ncclDevKernel_AllReduce_Sum_f32_RING_LL"]),
        "kind": (collective.astype(int), ["compute", "communication"]),
        "correlation": np.arange(count) + 1,
    }


def generated(store: str, name: str, events: int) -> JobFolder:
    """Write a job whose trace has so many events, and of them the kernels and copies."""
    folder, random = _job(store, name), np.random.default_rng(1)
    writer = Writer(folder, "n0")
    start, left = 0, int(events * SHARE_OF_KERNELS)
    while left > 0:
        count = min(left, 200_000)
        rows = kernels(random, count, start, 0)
        writer.append("kernels", rows)
        start, left = int(np.asarray(rows["time"])[-1]), left - count
    writer.close()
    return folder


def ranks(store: str, count: int) -> JobFolder:
    """Write a job of so many ranks with 1,500 kernels each, in which the middle one is always late."""
    folder = _job(store, "ranks")
    random = np.random.default_rng(2)
    plan = kernels(random, 1500, 0, 0)
    collective = np.asarray(plan["stream"]) == 14
    begin, length = np.asarray(plan["time"]), np.asarray(plan["duration"]).copy()
    length[~collective] = np.minimum(length[~collective], 4000)
    writer = Writer(folder, "n0")
    for rank in range(count):
        late = 30_000 if rank == count // 2 else 0
        shift = np.where(collective, random.integers(0, 500, len(begin)) + late, 0)
        end = begin + np.where(collective, 50_000, length)
        rows = {
            **plan,
            "time": begin + shift,
            "duration": end - begin - shift,
            "rank": np.full(len(begin), rank),
        }
        writer.append("kernels", rows)
    writer.close()
    return folder


if __name__ == "__main__":
    main()
