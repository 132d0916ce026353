"""What a profiling window costs, beside torch.profiler with `export_chrome_trace` on the same steps.

    python benchmarks/windows.py [--steps 50] [--rounds 7] [--windows 50]

One process and one training of small operators, where profiling costs most. A round trains the same number of
steps three times: alone, in a window, and under torch.profiler whose trace is exported. The CPU time of the
training thread until it goes on counts; of the rounds the median. torch.profiler works on what it found in
that time, holter in a thread beside the training, whose longest step meanwhile is its pause, on the clock.
Then what the agent makes of the window's file lies in a store, whose bytes stand beside those of the JSON and
of its gzip. Last, the time of a step before many windows, between the last of them, and after them; the
lowest tenth: what others do on the machine only adds to it. A million events are some 550 steps.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import mmap
import shutil
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch
from machine import described
from torch import nn

from holter.agent.clock import Clock
from holter.agent.drain import Drain
from holter.agent.profiling import Profiling
from holter.recorder import session as sessions
from holter.schema import windows
from holter.store.job import create
from holter.store.writer import Writer

WIDTH, DEPTH, BATCH = 64, 10, 32


class Loop:
    """A recorded training of many small operators."""

    def __init__(self, folder: Path) -> None:
        torch.set_num_threads(1)
        blocks = [m for _ in range(DEPTH) for m in (nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.LayerNorm(WIDTH))]
        self.model = nn.Sequential(*blocks)
        self.optimizer = torch.optim.Adam(self.model.parameters(), foreach=False)
        self.inputs = torch.randn(BATCH, WIDTH)
        self.spool = folder / "spool"
        self.spool.mkdir()
        self.session = sessions.Session(str(self.spool))
        self.session.install()
        self.session.attach("pytorch")
        self.asked = 0

    def steps(self, count: int) -> list[float]:
        """Train; return when they began and when each ended, seconds of CPU time of this thread."""
        ends = [time.thread_time()]
        for _ in range(count):
            loss = (self.model(self.inputs) - self.inputs).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            ends.append(time.thread_time())
        return ends

    def open_window(self, steps: int) -> None:
        """Ask for a window as the agent does: it begins with the end of the next step."""
        self.asked += 1
        text = windows.Order((windows.Request("operators", steps=steps),)).to_text().encode()
        with open(self.spool / windows.orders_name(self.session.process), "r+b") as file:
            page = memoryview(mmap.mmap(file.fileno(), windows.PAGE_SIZE))
        words = page.cast("i")
        page[windows.TEXT : windows.TEXT + len(text)] = text
        words[windows.LENGTH], words[windows.NUMBER], words[windows.WAKE] = len(text), self.asked, 0


def seconds(ends: list[float]) -> float:
    """Return the time from the first to the last."""
    return ends[-1] - ends[0]


class Taken(NamedTuple):
    """What steps under a profiler took."""

    seconds: float
    """CPU time of the training thread, of one step before it and of the steps in it, until it goes on."""
    pause: float
    """The longest time that the training stood still for it, seconds on the clock."""
    behind: float
    """From the last step until all was written, seconds on the clock, while the training went on."""


def windowed(loop: Loop, steps: int) -> Taken:
    """Train a step, at whose end a window begins, and as many steps in it."""
    loop.open_window(steps)
    taken = seconds(loop.steps(steps))
    began = time.perf_counter()  # before the window ends: torch may hold the training at once
    taken += seconds(loop.steps(1))
    last = time.perf_counter()
    longest = last - began
    while any(thread.name == "holter-window" for thread in threading.enumerate()):
        loop.steps(1)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    return Taken(taken, longest, time.perf_counter() - began)


def profiled(loop: Loop, steps: int, path: Path) -> Taken:
    """Train a step, and as many steps under torch.profiler, whose trace is written."""
    began = time.thread_time()
    loop.steps(1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        loop.steps(steps)
        ended = time.perf_counter()
    profiler.export_chrome_trace(str(path))
    return Taken(time.thread_time() - began, time.perf_counter() - ended, 0.0)


def main() -> None:
    """Measure, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--windows", type=int, default=50)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="holter-windows-"))
    try:
        measure(folder, given.steps, given.rounds, given.windows)
    finally:
        shutil.rmtree(folder)


def measure(folder: Path, steps: int, rounds: int, many: int) -> None:
    """Measure in a folder and print."""
    loop = Loop(folder)
    loop.steps(20)
    windowed(loop, 2)  # the first one loads what it needs
    profiled(loop, 2, folder / "first.json")
    for path in loop.spool.glob("*.operators"):
        path.unlink()
    alone, ours, theirs = [], [], []
    trace = folder / "trace.json"
    for _ in range(rounds):
        alone.append(seconds(loop.steps(steps + 1)))
        ours.append(windowed(loop, steps))
        theirs.append(profiled(loop, steps, trace))
    ratios = sorted(
        (mine.seconds - bare) / (other.seconds - bare)
        for bare, mine, other in zip(alone, ours, theirs, strict=True)
    )
    ratio, base = statistics.median(ratios), statistics.median(alone)
    window, profiler = (Taken(*map(statistics.median, zip(*one, strict=True))) for one in (ours, theirs))

    job = create(str(folder / "store"), "job", command=[], interval_ms=500, rules=[], now_ns=time.time_ns())
    drain, writer = Drain(loop.spool, Clock.now()), Writer(job, "node")
    profiling = Profiling(drain)
    events = drain.poll(final=True).events
    told = [one for one in profiling.take(events, writer) if one.kind == "window"]
    refused = [one.detail for one in told if one.name == "refused" and "rows" in one.detail]
    assert not refused, refused
    newest_window = told[-1].detail
    writer.close()
    parts = [path for path in (folder / "store").rglob("*.parquet") if "operators" in str(path)]
    newest = max(parts, key=lambda path: path.stat().st_mtime)
    size, text = newest.stat().st_size, trace.read_bytes()

    before, after = _step(loop, 500), []
    for _ in range(many):
        windowed(loop, 1)
        for path in loop.spool.glob("*.operators"):
            path.unlink()
        after.append(_step(loop, 20))
    last, later = statistics.median(after[-10:]), _step(loop, 500)
    loop.session.close()

    count = len(json.loads(text)["traceEvents"])
    rows, read_s = sum(newest_window["rows"].values()), newest_window["read_s"]
    zipped = len(gzip.compress(text, 6))
    print(f"{described()}\n")
    print(
        f"{steps} steps of {base / (steps + 1) * 1e3:.1f} ms; {rows} events in the window, {count} in the"
        " trace\n"
    )
    slowdown = f"{ratio:.2f} of the slowdown ({ratios[0]:.2f} to {ratios[-1]:.2f})"
    print("| | alone | in a window | torch.profiler, exported | ratio |\n|---|---:|---:|---:|---:|")
    print(f"| seconds | {base:.2f} | {window.seconds:.2f} | {profiler.seconds:.2f} | {slowdown} |")
    print(f"| longest pause, s | | {window.pause:.3f} | {profiler.pause:.3f} | |")
    print(f"| bytes | | {size:,} | {len(text):,} | 1/{len(text) / size:.0f} |")
    print(f"| bytes, theirs by gzip | | {size:,} | {zipped:,} | 1/{zipped / size:.1f} |")
    readable = window.behind + read_s
    print(
        f"\nAll was written {window.behind:.2f} s after the last step and read in {read_s:.2f} s:"
        f" {readable / rows * 1e6:.1f} s for a million events."
    )
    print(
        f"A step took {before * 1e3:.3f} ms before {many} windows, {last * 1e3:.3f} ms between the last ones,"
        f" {later * 1e3:.3f} ms after them ({(later / before - 1) * 100:+.1f} %)."
    )


def _step(loop: Loop, count: int) -> float:
    ends = loop.steps(count)
    return statistics.quantiles([end - begin for begin, end in itertools.pairwise(ends)], n=10)[0]


if __name__ == "__main__":
    main()
