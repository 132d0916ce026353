"""Import the traces of many ranks by workers of Ray: CPU time of each side, memory, events a second.

    python benchmarks/importing_many.py [--events 1e8] [--workers 1 2 4] [--times 20]

Needs the package ray. A real trace, `--times` as long, stands for each rank, as often as `--events` needs;
all are links to one file. Each number of workers is a Ray of its own on this machine. What the importing
process computes for an event limits how many workers help: it writes the rows of all.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import psutil
from importing import found, repeat
from machine import described
from markdown_tables import row, table

IMPORT = """
import json, resource, sys, time
from pathlib import Path
import ray
quiet = {"log_to_driver": False, "logging_level": "error", "include_dashboard": False}
ray.init("local", num_cpus=int(sys.argv[3]), **quiet)
from holter.importers import import_job
began, used = time.perf_counter(), time.process_time()
folder, report = import_job([Path(sys.argv[1])], sys.argv[2], "job", now_ns=0, on="ray")
wall, cpu = time.perf_counter() - began, time.process_time() - used
size = sum(p.stat().st_size for p in Path(sys.argv[2]).rglob("*") if p.is_file())
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"wall": wall, "cpu": cpu, "events": report.events, "bytes": size, "peak": peak,
                  "skipped": {file: dict(why) for file, why in report.skipped.items()}}))
"""
LOOK_S = 0.5
"""Time between two looks at the workers."""


class Workers:
    """CPU time and memory of Ray's workers below a process."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._cpu: dict[int, float] = {}
        self.peak = 0
        """The most resident bytes of one worker."""

    @property
    def cpu(self) -> float:
        """CPU seconds of all of them."""
        return sum(self._cpu.values())

    def watch(self, done: threading.Event) -> None:
        """Look at them now and then."""
        while not done.wait(LOOK_S):
            try:
                children = self._process.children(recursive=True)
            except psutil.Error:
                return
            for child in children:
                self._look(child)

    def _look(self, child: psutil.Process) -> None:
        try:
            title = " ".join(child.cmdline())
            if not title.startswith("ray::"):
                return
            times = child.cpu_times()
            self._cpu[child.pid] = times.user + times.system
            self.peak = max(self.peak, child.memory_info().rss)
        except psutil.Error:
            return


def measured(traces: Path, workers: int) -> None:
    """Import the folder with so many workers, and print the line of it."""
    with tempfile.TemporaryDirectory() as store:
        words = [sys.executable, "-c", IMPORT, str(traces), store, str(workers)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            seen, done = Workers(psutil.Process(process.pid)), threading.Event()
            watching = threading.Thread(target=seen.watch, args=(done,))
            watching.start()
            said, _ = process.communicate()
            done.set()
            watching.join()
        if process.returncode:
            raise SystemExit(process.returncode)
    told = json.loads(said.splitlines()[-1])  # Ray may print, too
    if told["skipped"]:
        raise SystemExit(f"left out: {told['skipped']}")
    events = told["events"]
    row(
        workers,
        f"{events:,}",
        f"{told['wall']:.0f} s",
        f"{events / told['wall'] / 1e6:.2f}",
        f"{seen.cpu / events * 1e6:.2f}",
        f"{told['cpu'] / events * 1e6:.2f}",
        f"{seen.peak / 2**20:.0f} MiB",
        f"{told['peak'] / 2**20:.0f} MiB",
        f"{told['bytes'] / events:.1f}",
    )


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=float, default=1e8)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--times", type=int, default=20)
    given = parser.parse_args()
    traces = found()
    if not traces:
        print("no traces are here; HOLTER_DATA names the folder of real traces")
        return
    with tempfile.TemporaryDirectory() as folder:
        one, ranks = Path(folder) / "one.json.gz", Path(folder) / "ranks"
        # In a process of its own, which takes the memory of a whole trace.
        with ProcessPoolExecutor(1) as other:
            events = other.submit(repeat, traces[0], one, given.times).result()
        ranks.mkdir()
        for rank in range(max(1, round(given.events / events))):
            os.link(one, ranks / f"rank{rank}.json.gz")
        print(f"{described()}; {len(list(ranks.iterdir()))} ranks, {events:,} events each")
        table(
            "workers", "events", "time", "M events/s", "us of a worker an event", "us of the importer",
            "memory of a worker", "of the importer", "bytes stored an event",
        )  # fmt: skip
        for workers in given.workers:
            measured(ranks, workers)


if __name__ == "__main__":
    main()
