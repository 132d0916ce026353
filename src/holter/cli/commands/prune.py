"""`holter prune`: delete old jobs; shows which before it does."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from holter.analysis.verdict.evidence import counted
from holter.cli import options, output
from holter.cli.job_lookup import unreadable_store
from holter.cli.options import Refusal
from holter.views.wording import size

if TYPE_CHECKING:
    from holter.store.prune import Pruned

ABOUT = """Delete old jobs. The command lists them first, and deletes nothing without --yes or your answer.
Running jobs are never deleted."""
EXAMPLES = """  holter prune --older-than 30d
  holter prune --keep 20 --yes
  holter prune --max-size 50GB --dry-run"""

_AGE = re.compile(r"(\d+(?:\.\d+)?)\s*(h|d|w)")
_AGE_NS = {"h": 3600 * 10**9, "d": 86_400 * 10**9, "w": 604_800 * 10**9}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(kB|MB|GB|TB|B)?", re.IGNORECASE)
_SIZE_BYTES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}


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
    limits: dict[str, Any] = {
        "older_than_ns": _age(given.older_than),
        "keep": _count(given.keep),
        "max_bytes": _bytes(given.max_size),
    }
    try:
        found = prune(url, dry_run=True, **limits)
        if given.json:
            deletes = given.yes and not given.dry_run
            listed = prune(url, **limits) if deletes else found
            output.write_json({"schema": 1, "store": url, "deleted": deletes, "jobs": listed})
            return 0
        if not found:
            print(f"Nothing to delete in {url}.")
            return 0
        _print(found)
        if given.dry_run or not (given.yes or _agreed(len(found))):
            print("Nothing was deleted.")
            return 0
        gone = prune(url, **limits)
    except (OSError, ValueError) as error:
        raise unreadable_store(url, error) from None
    print(f"Deleted {counted(len(gone), 'job')}, {size(sum(job.bytes for job in gone))}.")
    return 0


def _agreed(count: int) -> bool:
    if not sys.stdin.isatty():
        print("Run it again with --yes to delete.")
        return False
    return input(f"Delete {counted(count, 'job')}? [y/N] ").strip().lower() in ("y", "yes")


def _age(text: str | None) -> int | None:
    if text is None:
        return None
    match = _AGE.fullmatch(text.strip())
    if not match:
        raise Refusal(f"--older-than {text!r} is not an age; valid: a number and h, d or w, as 30d")
    return int(float(match[1]) * _AGE_NS[match[2]])


def _count(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal():
        raise Refusal(f"--keep {text!r} is not a number of jobs; valid: 0, 1, 2, ...")
    return int(text)


def _bytes(text: str | None) -> int | None:
    if text is None:
        return None
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise Refusal(f"--max-size {text!r} is not a size; valid: a number and B, kB, MB, GB or TB, as 50GB")
    return int(float(match[1]) * _SIZE_BYTES[(match[2] or "B").lower()])


def _print(found: list[Pruned]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("job", overflow="fold")
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("why", overflow="fold")
    for job in found:
        table.add_row(job.name, size(job.bytes), job.why)
    output.console(sys.stdout).print(table)
