"""How long `holter describe` takes on a job of 12 hours and 8 ranks, generated."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import HERE, described, environment

LIMIT_S = 3.0
ROUNDS = 3


def main() -> None:
    """Generate the job, ask for its description a few times, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=12)
    parser.add_argument("--ranks", type=int, default=8)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as store:
        generate = [sys.executable, str(HERE / "generate.py"), store, "--job", "long"]
        size = ["--hours", str(chosen.hours), "--ranks", str(chosen.ranks)]
        subprocess.run([*generate, *size], check=True, env=environment(), stdout=sys.stderr)
        total = sum(file.stat().st_size for file in Path(store).rglob("*") if file.is_file())
        taken = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            ask = [sys.executable, "-m", "holter", "describe", "long", "--json", "--store", store]
            subprocess.run(ask, check=True, env=environment(), stdout=subprocess.DEVNULL)
            taken.append(time.perf_counter() - began)
    print(f"{described()}\n")
    print(f"| {chosen.hours:g} h, {chosen.ranks} ranks, {total / 1e6:.0f} MB | median | slowest | target |")
    print("|---|---|---|---|")
    middle, slowest = statistics.median(taken), max(taken)
    print(f"| `holter describe --json` | {middle:.2f} s | {slowest:.2f} s | ≤ {LIMIT_S:g} s |")


if __name__ == "__main__":
    main()
