"""How much slower a training step becomes under holter and under its peers: ratios to the same script alone.

    python benchmarks/overhead.py [--rounds 8] [--peers FOLDER]

Machines grow faster and slower from one second to the next. So in each round the bare script and one under
each tool are started, and then run by turns of a second, all others stopped meanwhile with all their
processes. Each turn of a tool is compared with the mean of the two turns of the bare script around it. The
table shows the median over all turns, and between the rounds, which differ by where their memory lies, the
interval in which it lies with 95 % confidence (bootstrap over the rounds). `again` is the bare script once
more: by what it differs from 1, the rest is noise. Starting is not counted: each process runs alone for some
seconds before. `benchmarks/peers FOLDER` makes the peers' environments.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import random
import signal
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import psutil
from machine import HERE, described, environment

LOOP = HERE / "loop.py"
STEPS = {"1ms": 24_000, "10ms": 2400}
FEWER = {"torch.profiler": {"1ms": 6, "10ms": 2}}
"""It keeps every event in memory until the end, so it gets a part of the steps."""
LIMITS = {"1ms": 1.05, "10ms": 1.01}
START_S, TURN_S = 10.0, 1.0
PAUSE_NS = 500_000_000
"""A step that took so long was stopped in its middle."""
FIGURES = ("median step", "mean step", "trainer's CPU")


@dataclass
class Runner:
    """One command on its way, and what its training wrote at its end."""

    process: subprocess.Popen[bytes]
    out: Path

    def turn(self, seconds: float) -> bool:
        """Let it run for a while; return whether it goes on."""
        self._signal(signal.SIGCONT)
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGSTOP)
            return True
        return False

    def turns(self) -> list[tuple[float, float, float]]:
        """Return the three figures of each turn after the first, the last left out: it was cut short."""
        if self.process.returncode != 0 or not self.out.exists():
            raise SystemExit(f"{self.process.args!r} failed with {self.process.returncode}")
        taken = json.loads(self.out.read_text())
        turns: list[list[tuple[int, int]]] = [[]]
        for wall, cpu in zip(taken["wall"], taken["cpu"], strict=True):
            if wall > PAUSE_NS:
                turns.append([])
            else:
                turns[-1].append((wall, cpu))
        found = []
        for turn in turns[1:-1]:
            walls, cpus = zip(*turn, strict=True)
            found.append((statistics.median(walls), statistics.fmean(walls), statistics.fmean(cpus)))
        return found

    def _signal(self, number: int) -> None:
        with contextlib.suppress(psutil.Error):
            top = psutil.Process(self.process.pid)
            for one in [top, *top.children(recursive=True)]:
                with contextlib.suppress(psutil.Error):
                    one.send_signal(number)


def commands(peers: Path | None, scratch: Path) -> dict[str, list[str]]:
    """Return how each tool starts the loop; the loop's own options follow."""
    python = sys.executable
    run = [python, "-m", "holter", "run", "--store", str(scratch / "store"), "--interval", "500ms", "--"]
    # Its part inside the training without the agent and the rules beside it.
    bootstrap = HERE.parent / "src/holter/recorder/bootstrap"
    alone = f'HOLTER_SPOOL=$(mktemp -d -p {scratch}) PYTHONPATH={bootstrap}:$PYTHONPATH exec "$@"'
    tools = {
        "bare": [python, str(LOOP)],
        "again": [python, str(LOOP)],
        "holter": [*run, python, str(LOOP)],
        "recorder": ["sh", "-c", alone, "sh", python, str(LOOP)],
        "torch.profiler": [python, str(LOOP), "--tool", "torch.profiler"],
    }
    if peers and (peers / "traceml").exists():
        script = [str(peers / "traceml/bin/traceml"), "run", str(LOOP), "--logs-dir", str(scratch / "logs")]
        tools["traceml"] = [*script, "--args", "--tool", "traceml"]
    if peers and (peers / "smdebug").exists():
        tools["smdebug"] = [str(peers / "smdebug/bin/python"), str(LOOP), "--tool", "smdebug"]
    return tools


def one_round(size: str, tools: dict[str, list[str]], scratch: Path) -> dict[str, list[tuple[float, ...]]]:
    """Run all tools by turns until they have ended; return each turn's ratios to the bare script."""
    runners = {}
    for name, command in tools.items():
        out = scratch / f"{name}.json"
        steps = str(STEPS[size] // FEWER.get(name, {}).get(size, 1))
        words = [*command, "--size", size, "--steps", steps, "--out", str(out)]
        process = subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment()
        )
        runners[name] = Runner(process, out)
        runners[name].turn(START_S)
    going = list(runners)
    while going:
        going = [name for name in going if runners[name].turn(TURN_S)]
    turns = {name: runner.turns() for name, runner in runners.items()}
    bare = turns.pop("bare")
    around = [[(a + b) / 2 for a, b in zip(*two, strict=True)] for two in itertools.pairwise(bare)]
    return {
        name: [
            tuple(a / b for a, b in zip(turn, alone, strict=True))
            for turn, alone in zip(mine, around, strict=False)
        ]
        for name, mine in turns.items()
    }


def compare(size: str, rounds: int, tools: dict[str, list[str]], scratch: Path) -> list[str]:
    """Run some rounds; return the rows of the table."""
    found: dict[str, list[list[tuple[float, ...]]]] = {name: [] for name in tools if name != "bare"}
    for number in range(rounds):
        for name, ratios in one_round(size, tools, scratch).items():
            found[name].append(ratios)
            middle = " ".join(f"{statistics.median(of):.3f}" for of in zip(*ratios, strict=True))
            print(
                f"{size} round {number + 1}/{rounds} {name}: {middle}, {len(ratios)} turns", file=sys.stderr
            )
    rows = []
    for name, of_rounds in found.items():
        cells = [ratio(of_rounds, figure) for figure in range(len(FIGURES))]
        limit = f"≤ {LIMITS[size]}" if name == "holter" else ""
        rows.append(f"| {size} | {name} | {' | '.join(cells)} | {limit} |")
    return rows


def ratio(rounds: list[list[tuple[float, ...]]], figure: int) -> str:
    """Return the median of a figure over all turns, and where it lies between the rounds."""

    def middle(chosen: list[list[tuple[float, ...]]]) -> float:
        return statistics.median(turn[figure] for turns in chosen for turn in turns)

    draw = random.Random(0)
    medians = sorted(middle(draw.choices(rounds, k=len(rounds))) for _ in range(1000))
    return f"{middle(rounds):.3f} ({medians[25]:.3f} to {medians[-26]:.3f})"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--peers", type=Path, help="folder with the peers' environments")
    parser.add_argument("--sizes", nargs="+", default=sorted(STEPS), choices=sorted(STEPS))
    parser.add_argument("--tools", nargs="+", help="only these, and the bare script")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        tools = commands(chosen.peers, Path(scratch))
        tools = {name: tools[name] for name in tools if name in ["bare", *(chosen.tools or tools)]}
        rows = [row for size in chosen.sizes for row in compare(size, chosen.rounds, tools, Path(scratch))]
    print(f"{described()}, {chosen.rounds} rounds\n")
    print(f"| step | tool | {' | '.join(FIGURES)} | target |")
    print("|---|---|---|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
