"""`holter top [JOB]`: show running jobs in the terminal, and how they do now."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from holter.cli import options
from holter.cli.job_lookup import find_job, unreadable_store
from holter.cli.options import Refusal

if TYPE_CHECKING:
    from holter.store.job import JobFolder

ABOUT = "Show a job in the terminal while it runs: steps, ranks, machine, verdict and findings; or all jobs."
EXAMPLES = """  holter top
  holter top latest
  holter top train-20260131-120000 --every 10"""

_LEAST_S, _MOST_S = 0.5, 3600.0


def main(words: list[str]) -> int:
    """Run `holter top`."""
    parser = options.Parser("top", ABOUT, EXAMPLES, "--store")
    parser.add_argument(
        "job",
        nargs="?",
        metavar="JOB",
        help=f"{options.SHARED['job'][1]}; default: the running job, or a list",
    )
    parser.add_argument(
        "--every",
        type=options.within(float, _LEAST_S, _MOST_S, "seconds"),
        default=2.0,
        metavar="SECONDS",
        help="the least time between two looks at the job; default: 2. A long job is read less often: "
        "that takes at most 5 %% of a core",
    )
    given = parser.read(words)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Refusal("it needs a terminal; `holter describe` prints the same once, `holter jobs` lists jobs")
    from holter.cli.top.app import Top
    from holter.store.job import jobs, store_url
    from holter.views.jobs import why_not_running

    url = store_url(given.store)
    chosen: JobFolder | None
    if given.job is not None:
        chosen = find_job(given.job, given.store)
    else:
        try:
            running = [job for job in jobs(url) if why_not_running(job) is None]
        except (OSError, ValueError) as error:
            raise unreadable_store(url, error) from None
        chosen = running[0] if len(running) == 1 else None
    return Top(url, chosen, given.every).run() or 0
