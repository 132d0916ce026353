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
from pathlib import Path

from markdown_tables import row, table

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.faults.damaged_files import FILES, manifest, spool  # noqa: E402


def main() -> None:
    """Damage the files in turn and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="damage one of so many bytes")
    parser.add_argument("--only", default="", help="a part of a file's name")
    given = parser.parse_args()
    wanted = {
        **{name: lambda to, name=name: spool(to, name, given.every) for name in FILES},
        "segment, stored": lambda to: spool(to, "segment", 5 * given.every, stored=True),
        "manifest": lambda to: manifest(to, given.every),
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
