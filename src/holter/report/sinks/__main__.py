"""`python -m holter.report.sinks JOB_URL TRACKER…`: send a job's numbers to trackers while it runs."""

from __future__ import annotations

import sys
import time

from holter.report.sinks import sinks, target
from holter.report.sinks.sending import Sending
from holter.schema.companions import FAULT, stand_by
from holter.store.job import at
from holter.store.trial import Trial
from holter.views.telemetry import complete_until

LOOK_S = 5.0
_NICE = 10


def main(words: list[str]) -> int:
    """Send until SIGTERM or until the parent process is gone."""
    if len(words) < 2:
        print("usage: python -m holter.report.sinks JOB_URL TRACKER…", file=sys.stderr)
        return 64
    stopping, wait = stand_by(_NICE)
    folder = at(words[0])
    live = [one for one in map(target, words[1:]) if sinks()[one.name].LIVE]
    sending, trial = Sending(folder, live), Trial(folder, threads=1)
    told: set[str] = set()
    while not stopping():
        until = complete_until(trial, time.time_ns())
        if until is not None:
            sending.send(until)
        for name in sending.faults.keys() - told:
            told.add(name)
            print(f"{FAULT}{name}: {sending.faults[name]}", flush=True)
        wait(LOOK_S)
    sending.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
