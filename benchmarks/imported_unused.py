"""What holter adds to a script that imports a framework and does not use it.

Each turn runs `python -c "import FRAMEWORK"` without holter and with its bootstrap, in changing order, and
compares the CPU time of the whole processes; the bracket holds the middle half of the differences. An import
of seconds varies by more than what holter adds. So the recorded process also sums the CPU time of what holter
does when a module was imported, which is all that depends on the framework. The row `pass` has what the
bootstrap takes in each Python process. The recorder's files are compiled first, as those of an installed
holter are: with PYTHONDONTWRITEBYTECODE each process would compile them, which takes several milliseconds.

    python benchmarks/imported_unused.py [MODULE…] [--rounds 9]

Without MODULE: all whose environments exist; see `scripts/frameworks`.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from machine import described, environment, pace, python_of

from holter.schema.record import ENV_SPOOL

SOURCES = Path(__file__).parents[1] / "src/holter"
BOOTSTRAP = SOURCES / "recorder/bootstrap"
ENVIRONMENTS = {
    "torch": "",
    "xgboost": "",
    "lightgbm": "",
    "sklearn.linear_model": "",
    "catboost": "catboost",
    "jax": "jax",
    "keras": "keras",
    "tensorflow": "tensorflow",
    "ray": "ray",
    "lightning.pytorch": "lightning",
    "transformers.trainer": "transformers",
    "deepspeed": "deepspeed",
}
"""Module → the environment that has it; empty for the project's own."""
LIMIT_MS = 5.0
TIMED = """
import json, sys, time
from holter.recorder import imports
spent, open_calls = [0], [0]
class Timed(dict):
    def __setitem__(self, module, call):
        def timed(module):
            began = time.thread_time_ns()
            open_calls[0] += 1
            call(module)
            open_calls[0] -= 1
            if not open_calls[0]:
                spent[0] += time.thread_time_ns() - began
        super().__setitem__(module, timed)
watched = Timed()
for module, call in imports._watch.wanted.items():
    watched[module] = call
imports._watch.wanted = watched
"""
TOLD = "\nprint(json.dumps([spent[0] / 1e6, 'holter.recorder.session' in sys.modules]))"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("modules", nargs="*", choices=[[], *ENVIRONMENTS])
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    compileall.compile_dir(SOURCES, quiet=1)
    pythons = {module: python_of(name) if name else sys.executable for module, name in ENVIRONMENTS.items()}
    found = [module for module in ENVIRONMENTS if Path(pythons[module]).exists()]
    print(
        f"| import | CPU alone, ms | added in all, ms | on import, ms (≤ {LIMIT_MS:.0f}) | recorder loaded |"
    )
    print("|---|---|---|---|---|", flush=True)
    for module in ("pass", *(given.modules or found)):
        python = pythons.get(module, sys.executable)
        print(f"| `{module}` | {' | '.join(measured(python, module, given.rounds))} |", flush=True)
    print(f"\n{described()}; pace {pace():.0f} ms, {given.rounds} rounds")


def measured(python: str, module: str, rounds: int) -> list[str]:
    """Return the cells of a module."""
    statement = module if module == "pass" else f"import {module}"
    alone, added, inside, loaded = [], [], [], False
    for number in range(rounds):
        order = (False, True) if number % 2 else (True, False)
        taken = {recorded: cpu_ms(python, statement, recorded=recorded) for recorded in order}
        alone.append(taken[False])
        added.append(taken[True] - taken[False])
        own, loaded = json.loads(run(python, f"{TIMED}{statement}{TOLD}", recorded=True))
        inside.append(own)
    low, middle, high = statistics.quantiles(added, n=4, method="inclusive")
    spread = f"{middle:.0f} ({low:.0f} to {high:.0f})"
    of_own = "" if module == "pass" else f"{statistics.median(inside):.1f}"
    return [f"{statistics.median(alone):.0f}", spread, of_own, "yes" if loaded else "no"]


def cpu_ms(python: str, statement: str, *, recorded: bool) -> float:
    """Return the CPU milliseconds of a process, its start and its end included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(python, statement, recorded=recorded)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def run(python: str, script: str, *, recorded: bool) -> str:
    """Run a script, recorded or not; return the last line that it prints."""
    surroundings = environment() | {"KERAS_BACKEND": "torch"}
    surroundings.pop("PYTHONPATH")
    with tempfile.TemporaryDirectory() as spool:
        if recorded:
            surroundings |= {"PYTHONPATH": str(BOOTSTRAP), ENV_SPOOL: spool}
        done = subprocess.run(
            [python, "-c", script], check=True, capture_output=True, text=True, env=surroundings, cwd=spool
        )
        if recorded and (left := os.listdir(spool)):
            raise SystemExit(f"{script.splitlines()[-1]} left {', '.join(left)}")
    return done.stdout.strip().rpartition("\n")[2]


if __name__ == "__main__":
    main()
