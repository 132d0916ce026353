"""Changed files of every kind that holter reads: crashes, hangs, memory, executed code, writes elsewhere.

    python benchmarks/fuzz.py [--inputs N] [--seed S] [--only TEXT] [--minutes M]

Each reader of `tests/fuzz/readers.py` reads sound files that were changed in a few places, in processes of
500 files. The same seed changes the same files the same way. Each reader gets an equal share of `--minutes`.
Prints a table by reader, and each finding; Ctrl-C ends it with the table.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

from markdown_tables import row, table

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.fuzz.batches import Batch, run  # noqa: E402

READERS = import_module("tests.fuzz.readers").READERS
A_PROCESS = 500


def main() -> None:
    """Fuzz the readers in turn and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--inputs", type=int, default=1000, help="of each reader")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="a part of a reader's name")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    sums = {name: Batch(name) for name in READERS if given.only in name}
    try:
        for name, found in sums.items():
            began, share = time.monotonic(), 60 * given.minutes / len(sums)
            while found.inputs < given.inputs and time.monotonic() < began + share:
                place = folder / "batch"
                count = min(A_PROCESS, given.inputs - found.inputs)
                batch = run(name, given.seed + found.inputs, count, place)
                shutil.rmtree(place, ignore_errors=True)
                found.inputs += max(batch.inputs, 1)
                found.refused += batch.refused
                found.slowest_s = max(found.slowest_s, batch.slowest_s)
                found.memory = max(found.memory, batch.memory)
                found.findings += batch.findings
                for text in batch.findings:
                    print(f"{name}: {text}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("ended by hand; the table holds what was read until now", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    table("reader", "inputs", "refused in words", "slowest, s", "memory, MiB", "findings")
    for name, found in sums.items():
        slowest, memory = f"{found.slowest_s:.1f}", found.memory >> 20
        row(name, found.inputs, found.refused, slowest, memory, len(found.findings))
    print(f"\n{sum(found.inputs for found in sums.values())} inputs with seeds from {given.seed} on.")


if __name__ == "__main__":
    main()
