"""`holter configure JOB --interval …`: change how often a running job is sampled."""

from __future__ import annotations

from holter.cli import options
from holter.cli.stop import running, tell

ABOUT = "Change the monitor of a running job; its training is not touched."
EXAMPLES = """  holter configure latest --interval 100ms
  holter configure train-20260131-120000 --interval 1min"""


def main(words: list[str]) -> int:
    """Run `holter configure`."""
    parser = options.Parser("configure", ABOUT, EXAMPLES)
    options.add_job(parser)
    options.add_store(parser)
    parser.add_argument(
        "--interval", required=True, metavar="TIME", help="100ms, 200ms, 500ms, 1s, 5s or 1min"
    )
    given = parser.read(words)
    interval = options.interval_ms(given.interval)
    folder = running(options.find_job(given.job, given.store))
    tell(folder, {"interval_ms": interval})
    print(f"job {folder.name} is sampled every {options.interval_text(interval)} from now on")
    return 0
