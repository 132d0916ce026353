"""`python -m holter.report JOB_URL`: keep the report of a running job up to date."""

from __future__ import annotations

import sys

from holter.report.profiler_report import follow
from holter.schema.companions import stand_by
from holter.store.job import JobNotFound, at

USAGE, NOT_FOUND = 64, 4


def main(words: list[str]) -> int:
    """Follow a job until it has ended, or until SIGTERM."""
    if len(words) != 1 or words[0].startswith("-"):
        print("usage: python -m holter.report JOB_URL", file=sys.stderr)
        return USAGE
    stopping, wait = stand_by(19)  # lower priority than the training and the evaluator
    try:
        follow(at(words[0]), stopping=stopping, wait=wait)
    except JobNotFound as error:
        print(f"holter: {error}", file=sys.stderr)
        return NOT_FOUND
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
