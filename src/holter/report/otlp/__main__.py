"""`python -m holter.report.otlp JOB_URL [ENDPOINT]`: push a job's metrics while the job runs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

from holter.report.otlp import EVERY_NS, Push, address, shown
from holter.report.otlp.issues import IssuePush, logs_address
from holter.schema.companions import FAULT
from holter.store.job import at
from holter.store.layout import TOLD
from holter.store.trial import Trial
from holter.views.telemetry import complete_until

if TYPE_CHECKING:
    from types import FrameType

LOOK_S = 5.0
REFUSED_S = 60.0
"""Seconds after which refused issues are sent again."""


def main(words: list[str]) -> int:
    """Push until SIGTERM or until the parent process is gone; then store up to when metrics were sent."""
    if len(words) not in (1, 2):
        print("usage: python -m holter.report.otlp JOB_URL [ENDPOINT]", file=sys.stderr)
        return 64
    stop = threading.Event()

    def ask(_signal: int, _frame: FrameType | None) -> None:
        if not stop.is_set():
            stop.set()
            raise SystemExit  # it may be waiting for an endpoint that does not answer

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl-C is the job's
    with contextlib.suppress(OSError):
        os.nice(10)  # training comes first
    parent, folder = os.getppid(), at(words[0])
    began = int(folder.manifest().get("start") or folder.manifest().get("created") or time.time_ns())
    url = address("".join(words[1:]))
    push = Push(folder, url, sent_until=began, threads=1)
    issues = IssuePush(folder, logs_address(url))
    trial, reported = Trial(folder, threads=1), False
    again = 0.0
    signal.signal(signal.SIGTERM, ask)
    with contextlib.suppress(SystemExit):
        while os.getppid() == parent:
            until = complete_until(trial, time.time_ns())
            if until is not None and until - push.sent_until >= EVERY_NS:
                # Whole intervals since the start of the job: values do not depend on the time of a push.
                whole = push.sent_until + (until - push.sent_until) // EVERY_NS * EVERY_NS
                if not push.send(whole) and not reported:
                    reported = True
                    _tell(push, url)
            # Many endpoints take metrics only: that issues are refused is no fault.
            if time.monotonic() >= again and not issues.send():
                again = time.monotonic() + REFUSED_S
            stop.wait(LOOK_S)
    if push.why and not reported:  # the job ended during the first attempt
        _tell(push, url)
    kept = {"schema": 1, "sent_until": push.sent_until, "told": reported or bool(push.why)}
    folder.place.write(TOLD, json.dumps({**kept, "issues": sorted(issues.sent)}).encode())
    return 0


def _tell(push: Push, url: str) -> None:
    why = f" ({push.why})" if push.why else ""
    print(f"{FAULT}otlp: {shown(url)} does not take metrics{why}; trying on", flush=True)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
