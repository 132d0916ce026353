"""`python -m holter.evaluation JOB_URL` (or `STORE_URL JOB`): judge a job while it runs."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

from holter.evaluation import EvaluationResult, evaluate
from holter.store.job import JobNotFound, at, find

if TYPE_CHECKING:
    from types import FrameType

USAGE, NOT_FOUND = 64, 4


def main(words: list[str]) -> int:
    """Evaluate until the job has ended, or until SIGTERM; returns 0 no issue, 3 issues, 1 a rule failed."""
    if len(words) not in (1, 2) or words[0].startswith("-"):
        print("usage: python -m holter.evaluation JOB_URL | STORE_URL JOB", file=sys.stderr)
        return USAGE
    stop = threading.Event()

    def ask(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, ask)
    with contextlib.suppress(OSError):
        os.nice(10)  # training comes first
    # An evaluator that outlives the agent that started it would follow a job nobody ends.
    parent = os.getppid()
    try:
        folder = at(words[0]) if len(words) == 1 else find(*words)
        result: EvaluationResult = evaluate(
            folder, live=True, stopping=lambda: stop.is_set() or os.getppid() != parent, wait=stop.wait
        )
    except JobNotFound as error:
        print(f"holter: {error}", file=sys.stderr)
        return NOT_FOUND
    except ValueError as error:
        print(f"holter: {error}", file=sys.stderr)
        return USAGE
    return result.exit_code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
