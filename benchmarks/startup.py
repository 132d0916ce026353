"""What `holter run` adds to a command that does nothing: `holter run -- python -c pass` less `python -c pass`."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import described

ROUNDS = 7
LIMIT_S = 1.5


def seconds(command: list[str]) -> float:
    """Run a command to its end; return its wall time."""
    path = os.pathsep.join(
        filter(None, [str(Path(__file__).parents[1] / "src"), os.environ.get("PYTHONPATH")])
    )
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PYTHONPATH": path})
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
