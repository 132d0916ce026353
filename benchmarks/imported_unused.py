"""What holter adds to a script that imports a framework and does not use it, in CPU time and in wall time.

Each turn runs `python -c "import FRAMEWORK"` with the bootstrap and without, in changing order. Both runs of a
turn meet the same load, so a difference of the medians says more than either median; the bracket holds the
middle half of the differences. CPU time is that of the whole process, its start and its end included.

    python benchmarks/imported_unused.py [FRAMEWORK…] [--rounds 9]

Without FRAMEWORK: all whose environments exist; see `scripts/frameworks`.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import described, environment, python_of

from holter.schema.record import ENV_SPOOL

BOOTSTRAP = Path(__file__).parents[1] / "src/holter/recorder/bootstrap"
OWN = ("torch", "xgboost", "lightgbm", "sklearn.linear_model")
"""Modules of the project's own environment."""
ELSEWHERE = {
    "catboost": "catboost",
    "jax": "jax",
    "keras": "keras",
    "tensorflow": "tensorflow",
    "lightning": "lightning.pytorch",
    "transformers": "transformers",
    "deepspeed": "deepspeed",
    "ray": "ray",
}
"""Environment of a framework → the module that is imported there."""
LIMIT_MS = 5.0


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("frameworks", nargs="*")
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    pythons = dict.fromkeys(OWN, sys.executable)
    pythons |= {
        module: python_of(name) for name, module in ELSEWHERE.items() if Path(python_of(name)).exists()
    }
    print(f"| import | CPU alone, ms | CPU added, ms (≤ {LIMIT_MS:.0f}) | wall alone, ms | wall added, ms |")
    print("|---|---|---|---|---|", flush=True)
    for module in given.frameworks or pythons:
        turns = [turn(pythons[module], module, first=bool(number % 2)) for number in range(given.rounds)]
        cells = [cell for part in (0, 1) for cell in compared([(a[part], b[part]) for a, b in turns])]
        print(f"| `{module}` | {' | '.join(cells)} |", flush=True)
    print(f"\n{described()}, {given.rounds} rounds")


def turn(python: str, module: str, *, first: bool) -> tuple[tuple[float, float], tuple[float, float]]:
    """Run an import alone and recorded, in this order or the other; return CPU and wall ms of each."""
    taken = {recorded: imported(python, module, recorded=recorded) for recorded in (first, not first)}
    return taken[False], taken[True]


def imported(python: str, module: str, *, recorded: bool) -> tuple[float, float]:
    """Return the CPU and wall milliseconds of a process that imports a module."""
    surroundings = environment() | {"KERAS_BACKEND": "torch"}
    surroundings.pop("PYTHONPATH")
    with tempfile.TemporaryDirectory() as spool:
        if recorded:
            surroundings |= {"PYTHONPATH": str(BOOTSTRAP), ENV_SPOOL: spool}
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(
            [python, "-c", f"import {module}"], check=True, capture_output=True, env=surroundings, cwd=spool
        )
        wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        left = [name for name in os.listdir(spool) if recorded]
    if left:
        raise SystemExit(f"an import of {module} left {', '.join(left)}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return 1e3 * cpu, 1e3 * wall


def compared(turns: list[tuple[float, float]]) -> tuple[str, str]:
    """Return the median without holter, and the differences of the turns: median and middle half."""
    low, middle, high = statistics.quantiles([more - alone for alone, more in turns], n=4, method="inclusive")
    return f"{statistics.median(alone for alone, _ in turns):.0f}", f"{middle:.1f} ({low:.1f} to {high:.1f})"


if __name__ == "__main__":
    main()
