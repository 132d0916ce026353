"""How much slower a training step becomes under holter and under its peers: ratios to the same script alone.

    python benchmarks/overhead.py [--rounds 15] [--peers FOLDER]

In each round every tool runs once, one after another, and is compared with the bare run of the same
round; the table shows the median of the rounds with the interval in which it lies with 95 % confidence
(bootstrap over the rounds). `quietest` compares the lower quartiles of the runs' mean steps instead: what
others do on the machine only ever adds time. `again` is the bare script once more: by what it differs from
1, the rest is noise. `benchmarks/peers FOLDER` makes the peers' environments.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from machine import HERE, described, environment

LOOP = HERE / "loop.py"
STEPS = {"1ms": 12_000, "10ms": 1000}
FEWER = {"torch.profiler": 6}
"""It keeps every event in memory until the end, so it gets a sixth of the steps."""
LIMITS = {"1ms": 1.05, "10ms": 1.01}


def commands(peers: Path | None, scratch: Path) -> dict[str, list[str]]:
    """Return how each tool starts the loop; the loop's own options follow."""
    python = sys.executable
    run = [python, "-m", "holter", "run", "--store", str(scratch / "store"), "--interval", "500ms", "--"]
    tools = {
        "bare": [python, str(LOOP)],
        "again": [python, str(LOOP)],
        "holter": [*run, python, str(LOOP)],
        "torch.profiler": [python, str(LOOP), "--tool", "torch.profiler"],
    }
    if peers and (peers / "traceml").exists():
        script = [str(peers / "traceml/bin/traceml"), "run", str(LOOP), "--logs-dir", str(scratch / "logs")]
        tools["traceml"] = [*script, "--args", "--tool", "traceml"]
    if peers and (peers / "smdebug").exists():
        tools["smdebug"] = [str(peers / "smdebug/bin/python"), str(LOOP), "--tool", "smdebug"]
    return tools


def one_run(command: list[str], size: str, steps: int, out: Path) -> dict[str, float]:
    """Run the loop once; return milliseconds of wall and of the training process's CPU in a step."""
    words = [*command, "--size", size, "--steps", str(steps), "--out", str(out)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment(), check=False)
    if done.returncode != 0 or not out.exists():
        raise SystemExit(f"{' '.join(words)} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
    taken = json.loads(out.read_text())
    out.unlink()
    return {
        "wall": statistics.median(taken["wall"]) / 1e6,
        "mean": statistics.fmean(taken["wall"]) / 1e6,
        "cpu": statistics.fmean(taken["cpu"]) / 1e6,
    }


def compare(size: str, rounds: int, tools: dict[str, list[str]], scratch: Path) -> list[str]:
    """Run every tool in every round; return the rows of the table."""
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in tools}
    for number in range(rounds):
        # The order turns with each round, so that what comes right after a heavy tool is not always the same.
        names = list(tools)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            steps = STEPS[size] // FEWER.get(name, 1)
            runs[name].append(one_run(tools[name], size, steps, scratch / "steps.json"))
            print(f"{size} round {number + 1}/{rounds} {name}: {runs[name][-1]}", file=sys.stderr)
    rows = []
    for name in tools:
        if name == "bare":
            continue
        cells = [_ratio(runs[name], runs["bare"], key) for key in ("wall", "mean", "cpu")]
        cells.append(_quietest(runs[name], runs["bare"]))
        limit = f"≤ {LIMITS[size]}" if name == "holter" else ""
        bare = statistics.median(run["wall"] for run in runs["bare"])
        rows.append(f"| {size} ({bare:.2f} ms) | {name} | {' | '.join(cells)} | {limit} |")
    return rows


def _ratio(runs: list[dict[str, float]], bare: list[dict[str, float]], key: str) -> str:
    ratios = [run[key] / alone[key] for run, alone in zip(runs, bare, strict=True)]
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(2000))
    return f"{statistics.median(ratios):.3f} ({medians[50]:.3f} to {medians[-51]:.3f})"


def _quietest(runs: list[dict[str, float]], bare: list[dict[str, float]]) -> str:
    ours, alone = (statistics.quantiles([run["mean"] for run in of], n=4)[0] for of in (runs, bare))
    return f"{ours / alone:.3f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--peers", type=Path, help="folder with the peers' environments")
    parser.add_argument("--sizes", nargs="+", default=sorted(STEPS), choices=sorted(STEPS))
    parser.add_argument("--tools", nargs="+", help="only these, and the bare script")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        tools = commands(chosen.peers, Path(scratch))
        tools = {name: tools[name] for name in tools if name in ["bare", *(chosen.tools or tools)]}
        rows = [row for size in chosen.sizes for row in compare(size, chosen.rounds, tools, Path(scratch))]
    print(f"{described()}, {chosen.rounds} rounds\n")
    print("| step (bare) | tool | median step | mean step | trainer's CPU | quietest | target |")
    print("|---|---|---|---|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
