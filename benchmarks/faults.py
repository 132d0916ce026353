"""Faults in trainings: who is struck, when, and how; what each of them harmed.

    python benchmarks/faults.py [--count N] [--seed S] [--only TEXT] [--minutes M] [--keep FOLDER]

Each combination of `tests/faults/combinations.py` runs a small training twice: without holter, and recorded.
The fault must not change the exit code or the output (with the hash of the weights) beyond what it does
without holter. Every command must then read the job, steps that are lost must be told, and no spool may stay.
Prints a table by who was struck, and each problem with its combination.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from markdown_tables import row, table

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.faults.combinations import Combination, sample  # noqa: E402
from tests.faults.striking import Result, judged  # noqa: E402
from tests.faults.struck_training import library  # noqa: E402


def tried(combinations: list[Combination], folder: Path, until: float, side_by_side: int) -> list[Result]:
    """Try combinations until a time; prints each that harmed something as soon as it is known."""
    preload = library(folder)

    def one(number: int) -> Result | None:
        if time.monotonic() > until:
            return None
        place = folder / str(number)
        result = judged(combinations[number], place, preload)
        if not result.problems:
            shutil.rmtree(place, ignore_errors=True)
        else:
            print(f"{place} {result.combination}: {'; '.join(result.problems)}", file=sys.stderr, flush=True)
        return result

    with ThreadPoolExecutor(side_by_side) as pool:
        return [result for result in pool.map(one, range(len(combinations))) if result is not None]


def print_table(results: list[Result]) -> None:
    """Print what was struck how often, and what was harmed."""
    by_who: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        by_who[result.combination.who].append(result)
    table("struck", "combinations", "not struck", "steps taken", "steps stored", "with a problem")
    for who, some in [*sorted(by_who.items()), ("all", results)]:
        struck = [one for one in some if not one.not_struck]
        row(
            who,
            len(struck),
            len(some) - len(struck),
            sum(one.done for one in struck),
            sum(one.stored or 0 for one in struck),
            sum(bool(one.problems) for one in some),
        )
    for result in results:
        if result.problems:
            print(f"\n* {result.combination}: {'; '.join(result.problems)}", end="")
    print()


def main() -> None:
    """Try combinations and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="a part of a combination's name")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no more after them")
    parser.add_argument("--side-by-side", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="keeps what was harmed here")
    given = parser.parse_args()
    some = [one for one in sample(100 * given.count, given.seed) if given.only in str(one)][: given.count]
    folder = given.keep or Path(tempfile.mkdtemp(prefix="faults-"))
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    results = tried(some, folder, began + 60 * given.minutes, given.side_by_side)
    print_table(results)
    print(f"\n{len(results)} combinations with seed {given.seed} in {time.monotonic() - began:.0f} s.")


if __name__ == "__main__":
    main()
