"""`python -m holter.evaluation [--told] JOB_URL` (or `STORE_URL JOB`): judge a job while it runs.

With `--told` the rules and actions come from standard input, so from the command that started the job;
access to its store is not enough to set them.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from holter.evaluation import evaluate
from holter.schema.companions import stand_by
from holter.store.job import JobNotFound, at, find

if TYPE_CHECKING:
    from holter.store.documents import Document

USAGE, NOT_FOUND = 64, 4


def main(words: list[str]) -> int:
    """Evaluate until the job has ended, or until SIGTERM; returns 0, 3 for issues, or 1 for a failed rule."""
    told, words = words[:1] == ["--told"], words[words[:1] == ["--told"] :]
    if len(words) not in (1, 2) or words[0].startswith("-"):
        print("usage: python -m holter.evaluation [--told] JOB_URL | STORE_URL JOB", file=sys.stderr)
        return USAGE
    stopping, wait = stand_by(10)
    try:
        folder = at(words[0]) if len(words) == 1 else find(*words)
        given: Document = json.load(sys.stdin) if told else {}
        by, actions = given.get("rules"), given.get("actions") or ()
        result = evaluate(folder, by, actions=actions, live=True, stopping=stopping, wait=wait)
    except JobNotFound as error:
        print(f"holter: {error}", file=sys.stderr)
        return NOT_FOUND
    except ValueError as error:
        print(f"holter: {error}", file=sys.stderr)
        return USAGE
    return result.exit_code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
