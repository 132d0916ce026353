"""A training of many hours in minutes: memory of each process, files in the store, and how long answers take.

    python benchmarks/soak.py [--hours 72] [--rate 2000] [--minutes M] [--tabs 20]

A job of `--hours` at 100 steps a second is taken at `--rate` steps a second, or as fast as the machine can:
a plain loop with two parts and two numbers a step, and a saved tensor each 10,000 steps, under `holter run`
with the default rules. A profiling window is asked for each two minutes, and `--tabs` readers ask a dashboard
for the job's description each five seconds. What depends on the number of steps, rows and files is as in the
long job; what depends on the clock, such as samples of the machine, is as in a job of these minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import defaultdict
from pathlib import Path
from statistics import median

import psutil
from markdown_tables import row, table

from holter import open as open_job

ROOT = Path(__file__).parents[1]
JOB, TOKEN = "soak", "soak-token"
RATE_HZ = 100
"""Steps a second of the job that is simulated."""
LOOK_S = 2.0
WINDOW_S = 120.0
"""So often a profiling window is asked for."""
TRAINING = """
import sys, time, holter
weights = [0.5] * 256
steps, rate, seconds = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
began = time.perf_counter()
for step in range(steps):
    with holter.step():
        with holter.annotate("load"):
            pass
        with holter.annotate("compute"):
            pass
        holter.log(loss=1.0 / (step + 1), lr=0.1)
        if step % 10_000 == 0:
            holter.save_tensor("weights", weights)
    if step % 50 == 0:
        now = time.perf_counter() - began
        if now > seconds:
            break
        time.sleep(max(0.0, step / rate - now))
print(step + 1)
"""


class Memory:
    """Resident bytes of each kind of process over time."""

    def __init__(self, run: psutil.Process, dashboard: psutil.Process) -> None:
        self.run, self.dashboard = run, dashboard
        self.found: dict[str, list[int]] = defaultdict(list)

    def look(self) -> None:
        """Take one reading of all processes."""
        sums: dict[str, int] = defaultdict(int)
        with contextlib.suppress(psutil.Error):
            sums["agent"] = self.run.memory_info().rss
            sums["dashboard"] = self.dashboard.memory_info().rss
            for child in self.run.children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    words = " ".join(child.cmdline())
                    kind = "rules" if "holter.evaluation" in words else "training"
                    sums[kind] = max(sums[kind], child.memory_info().rss)
        for kind, size in sums.items():
            self.found[kind].append(size)


def ask(address: str) -> float:
    """Return how long an answer took, s."""
    began = time.monotonic()
    asked = urllib.request.Request(address, headers={"Authorization": f"Bearer {TOKEN}"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        answer.read()
    return time.monotonic() - began


def readers(address: str, tabs: int, stop: threading.Event) -> tuple[list[threading.Thread], list[float]]:
    """Let so many readers ask for the job's description every five seconds; return their waits, s."""
    waits: list[float] = []

    def read() -> None:
        while not stop.wait(5.0):
            with contextlib.suppress(OSError):
                waits.append(ask(address))

    threads = [threading.Thread(target=read, daemon=True) for _ in range(tabs)]
    for thread in threads:
        thread.start()
    return threads, waits


def main() -> None:
    """Run the job and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--hours", type=float, default=72.0)
    parser.add_argument("--rate", type=float, default=2000.0)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--tabs", type=int, default=20)
    given = parser.parse_args()
    steps = int(given.hours * 3600 * RATE_HZ)
    with tempfile.TemporaryDirectory(prefix="soak-", ignore_cleanup_errors=True) as place:
        soak(Path(place), steps, given.rate, 60 * given.minutes, given.tabs)


def soak(place: Path, steps: int, rate: float, seconds: float, tabs: int) -> None:
    """Run the job in a folder."""
    store, script = place / "store", place / "training.py"
    script.write_text(TRAINING)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "HOLTER_TOKEN": TOKEN}
    holter = [sys.executable, "-m", "holter"]
    words = [*holter, "run", "--store", str(store), "--job", JOB, "--", sys.executable, str(script)]
    words += [str(steps), str(rate), str(seconds)]
    with (place / "out").open("w") as out:
        run = subprocess.Popen(words, env=environment, stdout=out, stderr=subprocess.DEVNULL)
    while not (store / JOB / "job.json").exists() and run.poll() is None:
        time.sleep(0.1)
    ui = subprocess.Popen(
        [*holter, "ui", str(store), "--port", "0", "--json"],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert ui.stdout is not None
    text = ""
    for line in ui.stdout:
        text += line
        if line.startswith("}"):
            break
    address = json.loads(text)["address"].partition("?")[0].rstrip("/")
    memory, stop = Memory(psutil.Process(run.pid), psutil.Process(ui.pid)), threading.Event()
    _, waits = readers(f"{address}/api/v1/jobs/{JOB}", tabs, stop)
    files = windows = 0
    began = time.monotonic()
    while run.poll() is None:
        memory.look()
        if time.monotonic() - began > WINDOW_S * (windows + 1):
            windows += 1
            asks = [*holter, "profile", JOB, "--store", str(store), "--python", "cprofile", "--count", "20"]
            subprocess.run(asks, env=environment, capture_output=True, check=False)
        files = max(files, sum(path.is_file() for path in store.rglob("*")))
        time.sleep(LOOK_S)
    took = time.monotonic() - began
    stop.set()
    taken = int((place / "out").read_text().split()[0])
    began = time.monotonic()
    told = subprocess.run(
        [*holter, "describe", JOB, "--store", str(store), "--json"],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    describing = time.monotonic() - began
    ui.kill()
    ui.communicate()
    described = json.loads(told.stdout)
    events = open_job(str(store / JOB)).table("events").to_rows()
    print(
        f"{taken:,} steps, {taken / RATE_HZ / 3600:.1f} h at {RATE_HZ} a second, in {took / 60:.1f} minutes\n"
    )
    table("process", *(f"memory in part {part} of 5, MiB" for part in range(1, 6)), "most, MiB")
    for kind, sizes in sorted(memory.found.items()):
        parts = [sizes[len(sizes) * n // 5 : len(sizes) * (n + 1) // 5] for n in range(5)]
        row(kind, *(int(median(part)) >> 20 if part else None for part in parts), max(sizes) >> 20)
    print()
    table("what", "value")
    row("steps in the store", f"{described['steps']['count']:,}")
    row("profiling windows asked for", windows)
    row("profiling windows in the store", sum(one["kind"] == "window" for one in events))
    row("records dropped", described["cost"]["dropped"])
    row("faults", len(described["cost"]["faults"]))
    row("most files in the store", files)
    row("bytes a step", f"{described['cost']['bytes_per_step']:.1f}")
    row("`describe`, s", f"{describing:.1f}")
    row("answers of the dashboard", len(waits))
    row("their median, s", f"{sorted(waits)[len(waits) // 2]:.2f}" if waits else None)
    row("the slowest, s", f"{max(waits):.2f}" if waits else None)


if __name__ == "__main__":
    main()
