"""Every damage of a single byte in a small spool and a small job: what it harmed beyond itself.

    python benchmarks/damage.py [--every N] [--only TEXT]

Each byte of each file is where the file is cut, gets one bit flipped, becomes 0 and becomes 255. A damage may
cost its own record, or what the damaged line says; the other process of the spool and the other job of the
store must be read as before. `stored` also writes what was drained, and describes the job.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markdown_tables import row, table

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

damaged_files = import_module("tests.faults.damaged_files")


def main() -> None:
    """Damage the files in turn and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="damage one of so many bytes")
    parser.add_argument("--only", default="", help="a part of a file's name")
    given = parser.parse_args()
    spool, manifest = damaged_files.spool, damaged_files.manifest
    wanted: dict[str, Callable[[Path], Any]] = {
        **{name: partial(spool, name=name, every=given.every) for name in damaged_files.FILES},
        "segment, stored": partial(spool, name="segment", every=5 * given.every, stored=True),
        "manifest": partial(manifest, every=given.every),
    }
    found = {}
    for name, damage in wanted.items():
        if given.only in name:
            began = time.monotonic()
            with tempfile.TemporaryDirectory(prefix="damage-") as folder:
                found[name] = (damage(Path(folder)), time.monotonic() - began)
    table("file", "damages", "read as before", "with a problem", "seconds")
    for name, (tally, seconds) in found.items():
        row(name, tally.tried, tally.unharmed, len(tally.problems), f"{seconds:.0f}")
    for tally, _ in found.values():
        for problem in tally.problems:
            print(f"\n* {problem}", end="")
    print()


if __name__ == "__main__":
    main()
