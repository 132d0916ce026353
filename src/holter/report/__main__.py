"""`python -m holter.report JOB_URL`: keep the report of a running job up to date."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

from holter.report.profiler_report import follow
from holter.store.job import JobNotFound, at

if TYPE_CHECKING:
    from types import FrameType

USAGE, NOT_FOUND = 64, 4


def main(words: list[str]) -> int:
    """Follow a job until it has ended, or until SIGTERM."""
    if len(words) != 1 or words[0].startswith("-"):
        print("usage: python -m holter.report JOB_URL", file=sys.stderr)
        return USAGE
    stop = threading.Event()

    def ask(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, ask)
    with contextlib.suppress(OSError):
        os.nice(19)  # training comes first, then who judges it
    # One that outlives the agent that started it would follow a job nobody ends.
    parent = os.getppid()
    try:
        follow(at(words[0]), stopping=lambda: stop.is_set() or os.getppid() != parent, wait=stop.wait)
    except JobNotFound as error:
        print(f"holter: {error}", file=sys.stderr)
        return NOT_FOUND
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
