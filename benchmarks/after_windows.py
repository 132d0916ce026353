"""Whether windows leave anything: the step of a recorded job in which many were, against one without any.

    python benchmarks/after_windows.py [--rounds 4] [--windows 50] [--steps 24000]

Three recorded jobs of the same script are started in each round, one of them with windows of one step, every
other step from the 100th on. Once they are over, the jobs run by turns of a second, all others stopped, and
each turn is compared with the mean of the two turns of the first job around it, as in `overhead.py`. `again`
is a job without windows once more: by what it differs from 1, the rest is noise.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import overhead
from machine import described

from holter.job import open as open_job

FIRST_STEP = 100
SIZE = "1ms"
JOBS = ("bare", "again", "after windows")
"""The first is what `overhead.py` compares with."""


def commands(store: str, windows: int, number: int) -> dict[str, list[str]]:
    """Return how each job is started; the loop's own options follow."""
    run = [sys.executable, "-m", "holter", "run", "--store", store, "--interval", "500ms", "--no-rules"]
    steps = range(FIRST_STEP, FIRST_STEP + 2 * windows, 2)
    asked = [word for step in steps for word in ("--profile-steps", f"{step}:{step + 1}")]
    return {
        name: [
            *run,
            "--job",
            f"{name.split()[0]}-{number}",
            *(asked if name == JOBS[-1] else []),
            "--",
            sys.executable,
            str(overhead.LOOP),
        ]
        for name in JOBS
    }


def seen(store: str, number: int) -> int:
    """Return how many windows a job says it had."""
    job = open_job(f"{store}/{JOBS[-1].split()[0]}-{number}")
    return int(job.trial.table("events", where="kind = 'window' and name = 'operators'").rows)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--windows", type=int, default=50)
    parser.add_argument("--steps", type=int, default=overhead.STEPS[SIZE])
    given = parser.parse_args()
    overhead.STEPS[SIZE] = given.steps
    found: dict[str, list[list[tuple[float, ...]]]] = {name: [] for name in JOBS[1:]}
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(given.rounds):
            store = f"{scratch}/store"
            jobs = commands(store, given.windows, number)
            for name, ratios in overhead.one_round(SIZE, jobs, Path(scratch)).items():
                found[name].append(ratios)
            if (windows := seen(store, number)) != given.windows:
                raise SystemExit(f"{windows} of {given.windows} windows were seen")
    turns = len(found[JOBS[-1]][0])
    print(f"{described()}; {given.windows} windows, {given.rounds} rounds, {turns} turns in the first\n")
    print(f"| job | {' | '.join(overhead.FIGURES)} | target |\n|---|---|---|---|---|")
    for name, rounds in found.items():
        cells = [overhead.ratio(rounds, figure) for figure in range(len(overhead.FIGURES))]
        print(f"| {name} | {' | '.join(cells)} | {'0.99 to 1.01' if name == JOBS[-1] else ''} |")


if __name__ == "__main__":
    main()
