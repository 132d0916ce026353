"""How long `holter describe` and `holter report` take on a job of 12 hours and 8 ranks, generated."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import HERE, described, environment

LIMITS_S = {"describe": 3.0, "report": 10.0}
LARGEST = 3_000_000
"""Bytes that the report may have."""
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
        page = Path(store) / "report.html"
        commands = {"describe": ["--json"], "report": ["-o", str(page), "--force"]}
        taken: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(ROUNDS):
            for name, words in commands.items():
                began = time.perf_counter()
                ask = [sys.executable, "-m", "holter", name, "long", "--store", store, *words]
                subprocess.run(ask, check=True, env=environment(), stdout=subprocess.DEVNULL)
                taken[name].append(time.perf_counter() - began)
        size_of_page = page.stat().st_size
    print(f"{described()}\n")
    print(f"| {chosen.hours:g} h, {chosen.ranks} ranks, {total / 1e6:.0f} MB | median | slowest | target |")
    print("|---|---|---|---|")
    for name, times in taken.items():
        cells = f"{statistics.median(times):.2f} s | {max(times):.2f} s | ≤ {LIMITS_S[name]:g} s"
        print(f"| `holter {name}` | {cells} |")
    print(f"| size of the report | {size_of_page / 1e6:.2f} MB | | ≤ {LARGEST / 1e6:g} MB |")


if __name__ == "__main__":
    main()
