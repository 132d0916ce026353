"""What a profiling window costs, beside torch.profiler with `export_chrome_trace` on the same steps.

    python benchmarks/windows.py [--steps 50] [--rounds 7] [--windows 50]

One process and one training of small operators, where profiling costs most. A round trains the same number of
steps three times, in an order that turns from round to round: alone, in a window, and under torch.profiler
whose trace is exported. What the training takes until it goes on counts, by the CPU time of its thread and by
the clock; of the rounds the quickest, for what others do on the machine only adds to it, and beside that the
median of the rounds' ratios. torch.profiler works on what it found in that time, holter in a thread beside
the training, whose longest step meanwhile is its pause, on the clock; the CPU of the whole process has that
thread, too.
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

from holter.agent.drain.clock import Clock
from holter.agent.drain.drain import Drain
from holter.agent.drain.profiling import Profiling
from holter.recorder import session as sessions
from holter.schema import record, windows
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

    def journaled(self) -> int:
        """Return how long the journal is, in which a window is told once it is written."""
        return (self.spool / record.journal_name(self.session.process)).stat().st_size

    def open_window(self, steps: int) -> None:
        """Ask for a window as the agent does: it begins with the end of the next step."""
        self.asked += 1
        text = windows.ProfilingOrder((windows.Request("operators", steps=steps),)).to_text().encode()
        with open(self.spool / windows.orders_name(self.session.process), "r+b") as file:
            page = memoryview(mmap.mmap(file.fileno(), windows.PAGE_SIZE))
        words = page.cast("i")
        page[windows.TEXT : windows.TEXT + len(text)] = text
        words[windows.LENGTH], words[windows.NUMBER], words[windows.WAKE] = len(text), self.asked, 0


def seconds(ends: list[float]) -> float:
    """Return the time from the first to the last."""
    return ends[-1] - ends[0]


class Taken(NamedTuple):
    """What a step, and steps under a profiler after it, took until the training went on."""

    cpu: float
    """CPU seconds of the training thread."""
    clock: float
    """Seconds on the clock."""
    process: float
    """CPU seconds of all threads until all was written."""
    pause: float = 0.0
    """The longest time that the training stood still for it, seconds on the clock."""
    behind: float = 0.0
    """From the last step until all was written, seconds on the clock, while the training went on."""


class Watch:
    """The clocks of `Taken`."""

    def __init__(self) -> None:
        self.began = time.thread_time(), time.perf_counter(), time.process_time()

    def taken(self) -> tuple[float, float, float]:
        """Return what each clock says has gone by."""
        now = time.thread_time(), time.perf_counter(), time.process_time()
        cpu, clock, process = (one - begin for one, begin in zip(now, self.began, strict=True))
        return cpu, clock, process


def alone(loop: Loop, steps: int) -> Taken:
    """Train without a profiler."""
    watch = Watch()
    loop.steps(steps + 1)
    return Taken(*watch.taken())


def windowed(loop: Loop, steps: int) -> Taken:
    """Train a step, at whose end a window begins, and as many steps in it."""
    loop.open_window(steps)
    said = loop.journaled()
    watch = Watch()
    loop.steps(steps)
    began = time.perf_counter()  # before the window ends: torch may hold the training at once
    loop.steps(1)
    cpu, clock, _ = watch.taken()
    last = time.perf_counter()
    longest, beside = last - began, 0
    while loop.journaled() == said:
        loop.steps(1)
        beside += 1
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    behind = time.perf_counter() - began
    while any(thread.name == "holter-window" for thread in threading.enumerate()):
        time.sleep(0.01)  # until what was found is freed
    *_, process = watch.taken()
    return Taken(cpu, clock, process - beside * cpu_of_a_step(loop), longest, behind)


def cpu_of_a_step(loop: Loop) -> float:
    """Return what a step takes just now."""
    return statistics.median(seconds(loop.steps(1)) for _ in range(20))


def profiled(loop: Loop, steps: int, path: Path) -> Taken:
    """Train a step, and as many steps under torch.profiler, whose trace is written."""
    watch = Watch()
    loop.steps(1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        loop.steps(steps)
        ended = time.perf_counter()
    profiler.export_chrome_trace(str(path))
    return Taken(*watch.taken(), time.perf_counter() - ended)


def ratio(figure: str, alone: list[Taken], ours: list[Taken], theirs: list[Taken]) -> str:
    """Return what a window adds to the steps over what torch.profiler adds, at the quickest and by rounds."""
    rounds = [[getattr(one, figure) for one in taken] for taken in (alone, ours, theirs)]
    bare, mine, other = map(min, rounds)
    by_round = [(mine - bare) / (other - bare) for bare, mine, other in zip(*rounds, strict=True)]
    return f"{(mine - bare) / (other - bare):.2f} (by rounds {statistics.median(by_round):.2f})"


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
    trace = folder / "trace.json"
    ways = (alone, windowed, lambda loop, steps: profiled(loop, steps, trace))
    taken: list[list[Taken]] = [[], [], []]
    for number in range(rounds):
        for at in range(3):
            which = (number + at) % 3
            taken[which].append(ways[which](loop, steps))
    base, window, profiler = (Taken(*map(min, zip(*one, strict=True))) for one in taken)

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
        f"{steps} steps of {base.cpu / (steps + 1) * 1e3:.1f} ms, {rounds} rounds; {rows} events in the"
        f" window, {count} in the trace\n"
    )
    print(
        "| seconds | alone | in a window | torch.profiler, exported | a window |\n|---|---:|---:|---:|---:|"
    )
    for figure, name in (
        ("cpu", "CPU of the training thread"),
        ("clock", "on the clock"),
        ("process", "CPU of the whole process"),
    ):
        cells = " | ".join(f"{getattr(one, figure):.3f}" for one in (base, window, profiler))
        print(f"| {name} | {cells} | {ratio(figure, *taken)} |")
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
