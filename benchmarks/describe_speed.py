"""How long `holter describe` and `holter report` take on a job of 12 hours and 8 ranks, generated.

The targets are for the first command. `holter run` describes the job for its card and keeps the description
in the user's cache, so later commands of the same user take the time of "again".
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import HERE, described, environment, pace

from holter.store import cache

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
    with tempfile.TemporaryDirectory() as store, tempfile.TemporaryDirectory() as kept:
        os.environ["XDG_CACHE_HOME"] = kept
        generate = [sys.executable, str(HERE / "generate.py"), store, "--job", "long"]
        size = ["--hours", str(chosen.hours), "--ranks", str(chosen.ranks)]
        subprocess.run([*generate, *size], check=True, env=environment(), stdout=sys.stderr)
        total = sum(file.stat().st_size for file in Path(store).rglob("*") if file.is_file())
        page = Path(store) / "report.html"
        commands = {"describe": ["--json"], "report": ["-o", str(page), "--force"]}
        taken: dict[tuple[str, str], list[float]] = {}
        paces = [pace()]
        for _ in range(ROUNDS):
            for name, words in commands.items():
                shutil.rmtree(cache.root(), ignore_errors=True)
                for when in ("", ", again"):
                    began = time.perf_counter()
                    ask = [sys.executable, "-m", "holter", name, "long", "--store", store, *words]
                    subprocess.run(ask, check=True, env=environment(), stdout=subprocess.DEVNULL)
                    taken.setdefault((name, when), []).append(time.perf_counter() - began)
        paces.append(pace())
        size_of_page = page.stat().st_size
    print(f"{described()}; pace (`machine.pace`) {paces[0]:.0f} ms before, {paces[1]:.0f} ms after\n")
    print(f"| {chosen.hours:g} h, {chosen.ranks} ranks, {total / 1e6:.0f} MB | median | slowest | target |")
    print("|---|---|---|---|")
    for (name, when), times in taken.items():
        limit = "" if when else f"≤ {LIMITS_S[name]:g} s"
        print(f"| `holter {name}`{when} | {statistics.median(times):.2f} s | {max(times):.2f} s | {limit} |")
    print(f"| size of the report | {size_of_page / 1e6:.2f} MB | | ≤ {LARGEST / 1e6:g} MB |")


if __name__ == "__main__":
    main()
