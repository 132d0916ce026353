"""`holter prune`: delete old jobs; shows which before it does."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from holter.analysis.verdict.evidence import counted
from holter.cli import options, output
from holter.cli.job_lookup import unreadable_store
from holter.cli.options import Refusal
from holter.views.wording import size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.store.prune import Pruned

ABOUT = """Delete old jobs. The command lists them first, and deletes nothing without --yes or your answer.
Running jobs are never deleted."""
EXAMPLES = """  holter prune --older-than 30d
  holter prune --keep 20 --yes
  holter prune --max-size 50GB --dry-run"""

_AGES_NS = {"h": 3.6e12, "d": 86.4e12, "w": 604.8e12}
_SIZES = {"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12}


def main(words: list[str]) -> int:
    """Run `holter prune`."""
    parser = options.Parser("prune", ABOUT, EXAMPLES, "--store", "--json")
    parser.add_argument("--older-than", metavar="AGE", help="delete jobs that ended longer ago: 12h, 30d, 8w")
    parser.add_argument("--keep", metavar="N", help="keep the N newest jobs and delete the others")
    parser.add_argument(
        "--max-size", metavar="SIZE", help="delete the oldest jobs until the store is this small: 500MB, 50GB"
    )
    parser.add_argument("--yes", action="store_true", help="delete without asking")
    parser.add_argument("--dry-run", action="store_true", help="only list the jobs to delete")
    given = parser.read(words)
    if given.older_than is None and given.keep is None and given.max_size is None:
        raise Refusal(
            "give a limit: --older-than 30d, --keep 20 or --max-size 50GB; see `holter prune --help`"
        )
    from holter.store.job import store_url
    from holter.store.prune import prune

    url = store_url(given.store)
    limited = partial(
        prune,
        url,
        older_than_ns=_limit(
            "--older-than", given.older_than, _AGES_NS, "an age; valid: a number and h, d or w, as 30d"
        ),
        keep=_limit("--keep", given.keep, {"": 1}, "a number of jobs; valid: 0, 1, 2, ..."),
        max_bytes=_limit(
            "--max-size", given.max_size, _SIZES, "a size; valid: a number and B, kB, MB, GB or TB, as 50GB"
        ),
    )
    try:
        found = limited(dry_run=True)
        if given.json:
            deletes = given.yes and not given.dry_run
            listed = limited() if deletes else found
            output.write_json({"schema": 1, "store": url, "deleted": deletes, "jobs": listed})
            return 0
        if not found:
            print(f"Nothing to delete in {url}.")
            return 0
        _print(found)
        if given.dry_run or not (given.yes or _agreed(len(found))):
            print("Nothing was deleted.")
            return 0
        gone = limited()
    except (OSError, ValueError) as error:
        raise unreadable_store(url, error) from None
    print(f"Deleted {counted(len(gone), 'job')}, {size(sum(job.bytes for job in gone))}.")
    return 0


def _agreed(count: int) -> bool:
    if not sys.stdin.isatty():
        print("Run it again with --yes to delete.")
        return False
    return input(f"Delete {counted(count, 'job')}? [y/N] ").strip().lower() in ("y", "yes")


def _limit(option: str, text: str | None, units: Mapping[str, float], what: str) -> int | None:
    value = None if text is None else options.quantity(text, units)
    if text is not None and (value is None or value % 1):
        raise Refusal(f"{option} {text!r} is not {what}")
    return None if value is None else int(value)


def _print(found: list[Pruned]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("job", overflow="fold")
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("why", overflow="fold")
    for job in found:
        table.add_row(job.name, size(job.bytes), job.why)
    output.console(sys.stdout).print(table)
