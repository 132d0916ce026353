"""What `holter run` adds to a command that does nothing, `python -c pass`."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time

from machine import described, environment

ROUNDS = 7
LIMIT_S = 1.5


def seconds(command: list[str]) -> float:
    """Run a command to its end; return its wall time."""
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=environment())
    return time.perf_counter() - began


def main() -> None:
    """Print the table."""
    nothing = [sys.executable, "-c", "pass"]
    with tempfile.TemporaryDirectory() as store:
        pairs = [
            (
                seconds(nothing),
                seconds([sys.executable, "-m", "holter", "run", "--store", store, "--", *nothing]),
            )
            for _ in range(ROUNDS)
        ]
    added = [run - bare for bare, run in pairs]
    print(f"{described()}, {ROUNDS} rounds\n")
    print("| | median | lowest | highest | target |\n|---|---|---|---|---|")
    for name, values, limit in (
        ("`python -c pass`", [bare for bare, _ in pairs], ""),
        ("added by `holter run`", added, f"≤ {LIMIT_S} s"),
    ):
        cells = " | ".join(
            f"{value:.2f} s" for value in (statistics.median(values), min(values), max(values))
        )
        print(f"| {name} | {cells} | {limit} |")


if __name__ == "__main__":
    main()
