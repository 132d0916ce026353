"""How long the library takes over 100 million readings: a table of percentiles, a series in 2,000 buckets.

    python benchmarks/library.py [--rows 1e8] [--store FOLDER] [--frames]

Writing the job takes about 70 s of CPU and 240 MB on disk, 210 MB once its files are merged; `--store` keeps
it. Each question is asked in a process of its own, five times, of a job opened anew. `--frames` asks
smdebug's `PandasFrame` too: for an hour, and once for all readings piece by piece, which takes minutes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generate import Training, generate
from machine import described

import holter
from holter.store import cache

if TYPE_CHECKING:
    from collections.abc import Callable

LIMITS_S = {"percentiles": 2.0, "downsample": 1.0}
QUESTIONS = {
    "percentiles": 5,
    "downsample": 5,
    "usage in ranges": 5,
    "percentiles by phase": 3,
    "step statistics": 3,
    "phase intervals": 3,
    "bottlenecks": 3,
    "summary": 2,
    "comparison with itself": 1,
}
"""How often each is asked."""
OF_FRAMES = {"PandasFrame, an hour": 1, "PandasFrame, all in pieces": 1}
MOST_MB = 1000
SERIES_A_SECOND = 2 * 318
"""Readings a second of a machine with 96 cores and 8 GPUs, about."""


def make(store: str, rows: float) -> str:
    """Write the job; returns where it is."""
    training = Training(hours=rows / SERIES_A_SECOND / 3600, spans=False)
    return generate(store, "many", training).url


def frames(url: str) -> Any:
    """Open the job as smdebug does."""
    from holter.compat.smdebug.profiler.analysis.utils.profiler_data_to_pandas import PandasFrame

    return PandasFrame(url)


def anew(url: str) -> Any:
    """Open the job without what an earlier look at it has kept."""
    shutil.rmtree(cache.root(), ignore_errors=True)
    return holter.open(url)


def an_hour(url: str) -> Any:
    """Return the readings of the job's first hour."""
    frame = frames(url)
    return frame.get_profiler_data_by_time(frame.start_time, frame.start_time + 3_600_000_000)[0]


def ask(url: str, what: str, rounds: int) -> dict[str, Any]:
    """Ask one question a few times, opening the job anew each time."""
    questions: dict[str, Callable[[], Any]] = {
        "percentiles": lambda: holter.open(url).utilization(),
        "downsample": lambda: holter.open(url).series("gpu.util", 2000),
        "usage in ranges": lambda: holter.open(url).device_usage(),
        "percentiles by phase": lambda: holter.open(url).utilization(by_phase=True),
        "step statistics": lambda: holter.open(url).step_statistics(),
        "phase intervals": lambda: holter.open(url).phase_intervals(),
        "bottlenecks": lambda: holter.open(url).find_bottlenecks(),
        "summary": lambda: anew(url).summary(),
        "comparison with itself": lambda: anew(url).compare(url),
        "PandasFrame, an hour": lambda: an_hour(url),
        "PandasFrame, all in pieces": lambda: range(sum(map(len, frames(url).system_metrics_in_pieces()))),
    }
    taken, cpu = [], []
    for _ in range(rounds):
        began, used = time.perf_counter(), time.process_time()
        answer = questions[what]()
        taken.append(time.perf_counter() - began)
        cpu.append(time.process_time() - used)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return {"s": taken, "cpu": cpu, "mb": memory, "rows": len(answer)}


def apart(part: Callable[..., Any], *given: Any) -> Any:
    """Run a part in a process of its own, so that its memory is its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(part, *given).result()


def main() -> None:
    """Generate the job, ask, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, default=1e8)
    parser.add_argument(
        "--store", help="a folder in which the job is kept; by default it is made and removed"
    )
    parser.add_argument("--frames", action="store_true", help="ask PandasFrame too")
    given = parser.parse_args()
    asked = QUESTIONS | (OF_FRAMES if given.frames else {})
    with tempfile.TemporaryDirectory() as temporary:
        os.environ["XDG_CACHE_HOME"] = str(Path(temporary) / "cache")
        store = given.store or temporary
        there = Path(store) / "many"
        url = str(there) if there.is_dir() else apart(make, store, given.rows)
        rows = holter.open(url).trial.rows("samples")
        print(f"{rows:,} readings in {url}", file=sys.stderr)
        found = {what: apart(ask, url, what, rounds) for what, rounds in asked.items()}
    print(f"{described()}\n")
    print(f"| {rows / 1e6:.0f} million readings | fastest | median | slowest | CPU | memory | target |")
    print("|---|---|---|---|---|---|---|")
    for what, told in found.items():
        limit = f"≤ {LIMITS_S[what]:g} s, {MOST_MB} MB" if what in LIMITS_S else f"≤ {MOST_MB} MB"
        walls = f"{min(told['s']):.2f} s | {statistics.median(told['s']):.2f} s | {max(told['s']):.2f} s"
        times = f"{walls} | {statistics.median(told['cpu']):.2f} s"
        print(f"| {what}, {told['rows']:,} rows | {times} | {told['mb']:.0f} MB | {limit} |")


if __name__ == "__main__":
    main()
