"""`python -m holter.notebook.reading URL [--once]`: print the card of a job as JSON, again and again."""

from __future__ import annotations

import json
import sys
import time

from holter.job import card
from holter.schema.companions import stand_by
from holter.store.job import at
from holter.store.trial import Trial
from holter.views.document.description import describe
from holter.views.jobs import why_not_running

EVERY_S = 2.0
SHARE = 0.05
"""Largest share of a core that reading takes, because the training runs beside it."""
_NICE = 10


def main(words: list[str]) -> int:
    """Print a line whenever the job was read: its card as a bundle for notebooks."""
    url, once = words[0], "--once" in words
    folder = at(url)
    if once:
        print(json.dumps(card.bundle(describe(Trial(folder)), url)))
        return 0
    stopping, wait = stand_by(_NICE)
    while not stopping():
        began = time.process_time()
        try:
            told = describe(Trial(folder))
            if told["steps"]:
                print(json.dumps(card.bundle(told, url)), flush=True)
        except (OSError, ValueError, LookupError):
            pass  # it is being written; the next look reads it
        except BrokenPipeError:
            return 0
        if why_not_running(folder) is not None and folder.nodes():
            return 0
        wait(max(EVERY_S, (time.process_time() - began) / SHARE))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
