"""Whether `holter check` blames equal trainings that ran beside other programs.

    python benchmarks/comparisons.py [--runs 14] [--pairs 50] [--seconds 5] [--seed 0] [--threads 1]

Runs the same short training again and again, with 0 to 3 busy processes beside it: their number is drawn
anew for each run, and in half of the runs every second. Then judges pairs of these runs, as `holter check`
does. All runs do the same work, so each `regression` is false. `by wall time` is the result of the step
times alone. Two more kinds of runs follow, which are slower: one computes 50 % more, one sleeps.
They are compared with the equal runs, to see what is still found.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from machine import described, environment

import holter
from holter.analysis.jobs.comparison import judge
from holter.views.comparison.disturbed import between, read_conditions
from holter.views.comparison.document import compare
from holter.views.tables import steps_of

MOST_BUSY = 3
CHANGE_S = 1.0
ALLOWED = 0.05
KINDS = {"equal": (2, 0.0), "50 % more work": (3, 0.0), "sleeps 5 ms": (2, 0.005)}
"""Passes over a batch, and the sleep in each step."""
RESULTS = ("pass", "regression", "inconclusive", "disturbed")
_BUSY = "x = 0\nwhile True:\n    x += 1"


def train(passes: int, sleep_s: float, seconds: float, threads: int) -> None:
    """Train for some seconds."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    data = TensorDataset(torch.randn(6400, 256), torch.randint(0, 10, (6400,)))
    end = time.monotonic() + seconds
    while True:
        for inputs, targets in DataLoader(data, batch_size=64):
            optimizer.zero_grad()
            for _ in range(passes):
                nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
            time.sleep(sleep_s)
            if time.monotonic() >= end:
                return


def beside(training: subprocess.Popen[bytes], draw: random.Random) -> str:
    """Keep busy processes beside a training until it ends; return their numbers in words."""
    steady, counts = draw.random() < 0.5, [draw.randint(0, MOST_BUSY)]
    busy: list[subprocess.Popen[bytes]] = []
    try:
        while training.poll() is None:
            while len(busy) < counts[-1]:
                busy.append(subprocess.Popen([sys.executable, "-c", _BUSY]))
            while len(busy) > counts[-1]:
                _end(busy.pop())
            with contextlib.suppress(subprocess.TimeoutExpired):
                training.wait(CHANGE_S)
            if not steady:
                counts.append(draw.randint(0, MOST_BUSY))
    finally:
        for one in busy:
            _end(one)
    return str(counts[0]) if steady else "changes"


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def run(name: str, kind: str, chosen: argparse.Namespace, store: Path, draw: random.Random) -> str:
    """Record one job; return the number of busy processes beside it."""
    passes, sleep_s = KINDS[kind]
    script = [sys.executable, __file__, "--train", f"{passes},{sleep_s},{chosen.seconds},{chosen.threads}"]
    command = [sys.executable, "-m", "holter", "run", "--no-rules", "--store", str(store), "--job", name]
    quiet = subprocess.DEVNULL
    # The number of threads is set in the training.
    training = subprocess.Popen([*command, "--", *script], env=environment(), stdout=quiet, stderr=quiet)
    return beside(training, draw)


def results(before: Any, after: Any) -> tuple[str, str]:
    """Return the result by wall time, and that of `holter check`."""
    document = compare([before, after])
    step = document["changes"][0]["step"]
    if step is None:
        return "inconclusive", "inconclusive"
    interval = step["ratio_low"], step["ratio_high"]
    by_wall = judge(*interval, ALLOWED)
    slowed = between(*(job["conditions"] for job in document["jobs"]))
    return by_wall, slowed.judge(*interval, ALLOWED) if slowed else by_wall


def row(name: str, count: int, found: Counter[str]) -> str:
    """Return one line of the table of results."""
    return f"| {name} | {count} | {' | '.join(str(found[result]) for result in RESULTS)} |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=14, help="equal runs")
    parser.add_argument("--slower", type=int, default=3, help="runs of each slower kind")
    parser.add_argument("--pairs", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each training")
    parser.add_argument("--threads", type=int, default=1, help="that compute")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", type=Path, help="a folder that keeps the jobs")
    parser.add_argument("--train", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.train:
        passes, sleep_s, seconds, threads = chosen.train.split(",")
        train(int(passes), float(sleep_s), float(seconds), int(threads))
        return
    draw = random.Random(chosen.seed)
    with tempfile.TemporaryDirectory() as scratch:
        report(chosen, draw, chosen.store or Path(scratch) / "store")


def report(chosen: argparse.Namespace, draw: random.Random, store: Path) -> None:
    """Record the jobs, judge the pairs and print the tables."""
    planned = ["equal"] * chosen.runs + [kind for kind in list(KINDS)[1:] for _ in range(chosen.slower)]
    trials: dict[str, list[Any]] = {kind: [] for kind in KINDS}
    lines = ["| run | busy processes | mean step | CPU time for a step | wait for a core | other programs |"]
    lines += ["|---|---:|---:|---:|---:|---:|"]
    for number, kind in enumerate(planned):
        name = f"run-{number}"
        busy = run(name, kind, chosen, store, draw)
        trial = holter.open(str(store / name)).trial
        trials[kind].append(trial)
        ran = read_conditions(trial, steps_of(trial))
        cells = [
            f"{ran['step_ms'] or 0:.1f} ms",
            f"{ran['cpu_ms'] or 0:.1f} ms",
            f"{ran['waited_pct'] or 0:.0f} %",
            f"{ran['foreign_cores'] or 0:.1f} cores",
        ]
        lines.append(f"| {number}, {kind} | {busy} | {' | '.join(cells)} |")
    equal = trials["equal"]
    pairs = list(itertools.permutations(equal, 2))
    pairs = draw.sample(pairs, min(chosen.pairs, len(pairs)))
    judged = [results(before, after) for before, after in pairs]
    print(f"{described()}, {chosen.seconds:g} s a run, seed {chosen.seed}, threads {chosen.threads}\n")
    print("\n".join([*lines, "", f"| pairs | number | {' | '.join(RESULTS)} |", "|---|---:|" + "---:|" * 4]))
    print(row("equal, by wall time", len(judged), Counter(by_wall for by_wall, _ in judged)))
    print(row("equal, holter check", len(judged), Counter(result for _, result in judged)))
    for kind in list(KINDS)[1:]:
        slower = [results(before, after)[1] for before in equal for after in trials[kind]]
        print(row(f"{kind}, holter check", len(slower), Counter(slower)))


if __name__ == "__main__":
    main()
