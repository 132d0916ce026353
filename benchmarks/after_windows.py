"""Whether windows leave anything: the step of a recorded job after many of them, against before.

    python benchmarks/after_windows.py [--rounds 4] [--windows 50] [--steps 2000]

In each round three recorded jobs of the same script run by turns of a quarter of a second, all others stopped
meanwhile. In the middle of one of them are windows of one step, at every other step. Each turn is compared
with the mean of the two turns of the first job around it; what counts is how these ratios after the windows
differ from those before, in the same processes, so that where their memory lies and how fast the machine runs
just then makes no difference. `again` is a job without windows, looked at in the same way: by what it differs
from 1, the rest is noise. What the trainings hold is taken after the first turn and the last one. No round is
begun that would end more than five minutes after the start.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import overhead
import psutil
from machine import described, environment

from holter.job import open as open_job

JOBS = ("bare", "again", "after windows")
"""The first is what the others are compared with."""
TURN_S = 0.25
LIMIT_S = 300.0
PAUSE_NS = 200_000_000
"""A step that took so long was stopped in its middle."""
MARGIN = 100
"""Steps around the windows that are of neither side."""
LOOKS = 8
"""Turns from one look at what the trainings hold to the next: a look takes as long as some steps."""
HELD = ("memory, MiB", "threads", "open files", "files in the spool")


class Turn(NamedTuple):
    """The steps between two stops."""

    first: int
    last: int
    step: float
    """Nanoseconds, the median."""
    cpu: float
    """Of the training, nanoseconds a step."""


def command(store: str, name: str, number: int, first: int, windows: int) -> list[str]:
    """Return how a job is started; the loop's own options follow."""
    steps = range(first, first + 2 * windows, 2) if name == JOBS[-1] else ()
    asked = [word for step in steps for word in ("--profile-steps", f"{step}:{step + 1}")]
    run = [sys.executable, "-m", "holter", "run", "--store", store, "--interval", "500ms", "--no-rules"]
    return [*run, "--job", f"{name.split()[0]}-{number}", *asked, "--", sys.executable, str(overhead.LOOP)]


def turns(out: Path) -> list[Turn]:
    """Return the turns of a training that has ended, but the first and the last, which are cut."""
    taken = json.loads(out.read_text())
    stops = [at for at, wall in enumerate(taken["wall"]) if wall > PAUSE_NS]
    found = []
    for begin, end in itertools.pairwise(stops):
        walls, cpus = taken["wall"][begin + 1 : end], taken["cpu"][begin + 1 : end]
        if walls:
            found.append(Turn(begin + 1, end, statistics.median(walls), statistics.fmean(cpus)))
    return found


def trains(runner: overhead.Runner) -> bool:
    """Return whether the training of a job has ended a step: it has opened the page of orders then."""
    found = held(runner)
    return found is not None and found[-1] > 2


def held(runner: overhead.Runner) -> tuple[float, ...] | None:
    """Return what the training of a job holds now, in the order of `HELD`; None when it has ended."""
    with contextlib.suppress(psutil.Error, OSError):
        for one in psutil.Process(runner.process.pid).children(recursive=True):
            words = one.cmdline()
            if str(overhead.LOOP) in words and "holter" not in words:
                spool = len(os.listdir(one.environ()["HOLTER_SPOOL"]))
                return one.memory_info().rss / 2**20, one.num_threads(), one.num_fds(), spool
    return None


def one_round(number: int, steps: int, windows: int, scratch: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run the jobs by turns; return their turns, and what they held first and last."""
    runners = {}
    for name in JOBS:
        out = scratch / f"{name.split()[0]}.json"
        words = command(f"{scratch}/store", name, number, steps // 2, windows)
        process = subprocess.Popen(
            [*words, "--size", "1ms", "--steps", str(steps), "--out", str(out)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(),
        )
        runners[name] = overhead.Runner(process, out)
        while runners[name].turn(TURN_S) and not trains(runners[name]):
            pass
    holding = {name: [held(runner)] * 2 for name, runner in runners.items()}
    going = list(JOBS)
    for at in itertools.count(1):
        going = [name for name in going if runners[name].turn(TURN_S)]
        if not going:
            break
        for name in going if at % LOOKS == 0 else ():
            holding[name][1] = held(runners[name]) or holding[name][1]
    for name, runner in runners.items():
        if runner.process.returncode != 0:
            raise SystemExit(f"{name} failed with {runner.process.returncode}")
    return {name: turns(runner.out) for name, runner in runners.items()}, holding


def change(bare: list[Turn], mine: list[Turn], first: int, last: int, figure: str) -> float:
    """Return by what factor the ratios after step `last` differ from those before step `first`."""
    sides: dict[bool, list[float]] = defaultdict(list)
    for (one, other), turn in zip(itertools.pairwise(bare), mine, strict=False):
        if turn.last < first or turn.first > last:
            around = (getattr(one, figure) + getattr(other, figure)) / 2
            sides[turn.first > last].append(getattr(turn, figure) / around)
    if len(sides) < 2:
        raise SystemExit("there was no turn before the windows, or none after them: give more --steps")
    return statistics.median(sides[True]) / statistics.median(sides[False])


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--windows", type=int, default=50)
    parser.add_argument("--steps", type=int, default=2000)
    given = parser.parse_args()
    first, last = given.steps // 2 - MARGIN, given.steps // 2 + 2 * given.windows + MARGIN
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    grown: dict[str, list[list[tuple[float, ...]]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as scratch:
        began = time.monotonic()
        for number in range(given.rounds):
            if (time.monotonic() - began) * (number + 1) > LIMIT_S * max(number, 1):
                break
            taken, holding = one_round(number, given.steps, given.windows, Path(scratch))
            job = open_job(f"{scratch}/store/{JOBS[-1].split()[0]}-{number}")
            seen = int(job.trial.table("events", where="kind = 'window' and name = 'operators'").rows)
            if seen != given.windows:
                raise SystemExit(f"{seen} of {given.windows} windows were seen")
            for name in JOBS[1:]:
                for figure in ("step", "cpu"):
                    ratio = change(taken[JOBS[0]], taken[name], first, last, figure)
                    found[name, figure].append(ratio)
                grown[name].append(holding[name])
            middle = ", ".join(f"{name} {found[name, 'step'][-1]:.3f}" for name in JOBS[1:])
            spent = time.monotonic() - began
            print(f"round {number + 1}/{given.rounds}, {spent:.0f} s: {middle}", file=sys.stderr)
    print(f"{described()}; {given.windows} windows, {len(grown[JOBS[-1]])} rounds\n")
    print("| job | median step | trainer's CPU | target |\n|---|---|---|---|")
    for name in JOBS[1:]:
        cells = []
        for figure in ("step", "cpu"):
            ratios = sorted(found[name, figure])
            cells.append(f"{statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})")
        print(f"| {name} | {' | '.join(cells)} | {'0.99 to 1.01' if name == JOBS[-1] else ''} |")
    print("\n| the training holds | job | first | last |\n|---|---|---:|---:|")
    for at, what in enumerate(HELD):
        for name in JOBS[1:]:
            begin, end = (
                statistics.median(one[side][at] for one in grown[name] if one[side]) for side in (0, 1)
            )
            print(f"| {what} | {name} | {begin:.0f} | {end:.0f} |")


if __name__ == "__main__":
    main()
