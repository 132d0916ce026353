"""What holter costs a training as long as it records, found within one process.

    python benchmarks/one_process.py [--sizes 1ms 10ms] [--processes 3] [--seconds 60]

Two processes of the same script differ by some percent, by where their memory lies; `overhead.py` shows how
much. Here one script under `holter run` is compared with itself, by turns of half a second: in a turn of
`holter` all that records is on and the agent and the rules run beside it; in the turns of `bare` and `again`
the recorder's parts are off (what is left of them, a test of one attribute each, is not counted) and all
processes beside it are stopped. The order within each three turns is drawn anew. An agent that was
stopped has its readings to take at once, so that its share is rather over- than underestimated. `again`
against `bare` is noise. Intervals: 95 %, bootstrap over the threes of all processes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from machine import described, environment

if TYPE_CHECKING:
    from holter.recorder.session import Session

STATES = ("bare", "holter", "again")
START_S, TURN_S = 8.0, 0.5
LEFT_OUT = 2
"""The first steps of a turn: the switch itself, and a step whose parts were recorded by half."""
LIMITS = {"1ms": 1.05, "10ms": 1.01}


def train(size: str, seconds: float, out: Path) -> None:
    """Train under `holter run`; write down the mean and the median step of each turn, nanoseconds."""
    from loop import material
    from torch import nn

    from holter.recorder import session

    model, optimizer, batches = material(size)
    assert session.current is not None, "nothing records this process"
    me, agent = os.getpid(), psutil.Process(os.getppid())
    ends: list[int] = []
    turns: list[tuple[str, float, float]] = []
    state, order = "holter", list(STATES)
    end, until = time.monotonic() + START_S + seconds, time.monotonic() + START_S
    while time.monotonic() < end:
        for inputs, targets in batches:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()
            ends.append(time.perf_counter_ns())
            if time.monotonic() < until:
                continue
            steps = [b - a for a, b in zip(ends[LEFT_OUT:], ends[LEFT_OUT + 1 :], strict=False)]
            turns.append((state, statistics.fmean(steps), statistics.median(steps)))
            if len(turns) % len(STATES) == 1:  # the first turn was the start
                random.shuffle(order)
            state = order[(len(turns) - 1) % len(STATES)]
            _switch(session.current, agent, me, state == "holter")
            ends.clear()
            until = time.monotonic() + TURN_S
    _switch(session.current, agent, me, True)
    whole = (len(turns) - 1) // len(STATES) * len(STATES)
    out.write_text(json.dumps(turns[1 : 1 + whole]))


def _switch(session: Session, agent: psutil.Process, me: int, on: bool) -> None:
    for breaker in session.breakers.values():
        breaker.on = on
    for one in [agent, *agent.children(recursive=True)]:
        if one.pid != me:
            with contextlib.suppress(psutil.Error):
                one.send_signal(signal.SIGCONT if on else signal.SIGSTOP)


def threes(size: str, seconds: float, scratch: Path) -> list[dict[str, tuple[float, float]]]:
    """Run one process; return for each three turns the mean and the median step of each state."""
    out = scratch / "turns.json"
    script = [
        sys.executable,
        str(Path(__file__)),
        "--train",
        size,
        "--seconds",
        str(seconds),
        "--out",
        str(out),
    ]
    command = [sys.executable, "-m", "holter", "run", "--store", str(scratch / "store"), "--", *script]
    quiet = subprocess.DEVNULL
    subprocess.run(command, check=True, env=environment(), stdout=quiet, stderr=quiet)
    turns = json.loads(out.read_text())
    return [
        {state: (mean, median) for state, mean, median in turns[at : at + len(STATES)]}
        for at in range(0, len(turns), len(STATES))
    ]


def ratio(found: list[dict[str, tuple[float, float]]], state: str, figure: int) -> str:
    """Return the mean ratio of a state's step to the bare one's, and the interval in which it lies."""
    ratios = [one[state][figure] / one["bare"][figure] for one in found]

    def middle(chosen: list[float]) -> float:
        # A turn that the machine gave to somebody else moves a mean, so a tenth is cut at each end.
        kept = sorted(chosen)[len(chosen) // 10 : len(chosen) - len(chosen) // 10]
        return statistics.fmean(kept)

    draw = random.Random(0)
    drawn = sorted(middle(draw.choices(ratios, k=len(ratios))) for _ in range(1000))
    return f"{middle(ratios):.4f} ({drawn[25]:.4f} to {drawn[-26]:.4f})"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=sorted(LIMITS), choices=sorted(LIMITS))
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each process after its start")
    parser.add_argument("--train", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.train:
        train(chosen.train, chosen.seconds, chosen.out)
        return
    rows, told = [], []
    for size in chosen.sizes:
        with tempfile.TemporaryDirectory() as scratch:
            each = [threes(size, chosen.seconds, Path(scratch)) for _ in range(chosen.processes)]
        found = [one for of_process in each for one in of_process]
        for state in STATES[1:]:
            limit = f"≤ {LIMITS[size]}" if state == "holter" else ""
            cells = " | ".join(ratio(found, state, figure) for figure in (1, 0))
            rows.append(f"| {size} | {state} | {cells} | {len(found)} | {limit} |")
        for state in STATES[1:]:
            medians = ", ".join(ratio(of_process, state, 1).split()[0] for of_process in each)
            told.append(f"{size}, {state}, median step of each process: {medians}")
    print(f"{described()}, {chosen.processes} processes of {chosen.seconds:g} s\n")
    print("| step | state | median step | mean step | threes of turns | target |\n|---|---|---|---|---|---|")
    print("\n".join([*rows, "", *told]))


if __name__ == "__main__":
    main()
