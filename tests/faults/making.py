"""Makes one fault in a training that waits for it: a signal, failing calls, a set clock, a damaged file."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable

import psutil
from tests.faults.combinations import RULES_START_S
from tests.faults.struck_training import Strike

STOPPED_S = 0.7
"""How long a process is stopped; and how long a fault lasts that passes."""


def strike(struck: Strike) -> None:
    """Make the fault of a combination. Raises `LookupError` or `OSError` where there is nothing to strike."""
    _FAULTS[struck.combination.who](struck)


def end_dashboard(strike: Strike) -> None:
    """End the dashboard, if one was struck."""
    if strike.dashboard is not None:
        strike.dashboard.kill()
        strike.dashboard.communicate()


def _signal(pid: int, how: str) -> None:
    os.kill(pid, getattr(signal, how))
    if how == "SIGSTOP":
        time.sleep(STOPPED_S)
        os.kill(pid, signal.SIGCONT)


def _process(strike: Strike) -> None:
    _signal(strike.pids[strike.combination.who], strike.combination.how)


def _rules(strike: Strike) -> None:
    deadline = time.monotonic() + RULES_START_S + 15
    while time.monotonic() < deadline:
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if "holter.evaluation" in process.cmdline() and any(
                    str(strike.store) in word for word in process.cmdline()
                ):
                    time.sleep(strike.combination.at)
                    _signal(process.pid, strike.combination.how)
                    return
        time.sleep(0.05)
    raise LookupError("no process of rules")


def _dashboard(strike: Strike) -> None:
    words = [sys.executable, "-m", "holter", "ui", str(strike.store), "--port", "0", "--json"]
    environment = {**strike.environment, "HOLTER_TOKEN": "token"}
    strike.dashboard = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True
    )
    assert strike.dashboard.stdout is not None
    strike.dashboard.stdout.readline()
    _signal(strike.dashboard.pid, strike.combination.how)


def _clock(strike: Strike) -> None:
    seconds = {"hour back": -3600, "hour ahead": 3600, "year 2100": 74 * 365 * 86400}
    struct.pack_into("<q", strike.page, 8, seconds[strike.combination.how])


def _calls(strike: Strike) -> None:
    name, _, passing = strike.combination.how.partition(" ")
    struct.pack_into("<q", strike.page, 24, int(strike.combination.at * 8))
    struct.pack_into("<q", strike.page, 0, getattr(errno, name))
    if passing:
        time.sleep(STOPPED_S)
        struct.pack_into("<q", strike.page, 0, 0)


def _store(strike: Strike) -> None:
    how = strike.combination.how
    if how == "missing":
        shutil.rmtree(strike.store, ignore_errors=True)
    elif how == "moved for a while":
        elsewhere = strike.folder / "elsewhere"
        strike.store.rename(elsewhere)
        time.sleep(STOPPED_S)
        if strike.store.exists():  # what a writer made meanwhile
            shutil.rmtree(strike.store)
        elsewhere.rename(strike.store)
    elif how == "a file":
        shutil.rmtree(strike.store, ignore_errors=True)
        strike.store.touch()
    else:
        _calls(strike)


def _spool(strike: Strike) -> None:
    if strike.combination.how == "missing":
        for path in strike.temporary.glob("holter-*"):
            shutil.rmtree(path, ignore_errors=True)
    else:
        _calls(strike)


def _file(below: str, pattern: str) -> Callable[[Strike], None]:
    def damage(strike: Strike) -> None:
        deadline = time.monotonic() + 3
        while not (found := sorted(getattr(strike, below).glob(pattern))) and time.monotonic() < deadline:
            time.sleep(0.05)
        if not found:
            raise LookupError(f"no file {pattern}")
        path = found[int(strike.combination.at * len(found))]
        size = path.stat().st_size
        at = int(size * (strike.combination.at * 1000 % 1))
        if strike.combination.how == "truncated":
            os.truncate(path, at)
        else:
            with path.open("r+b") as file:
                file.seek(at)
                file.write(bytes((at * 37 + i * 101) % 256 for i in range(min(64, size - at))))

    return damage


_FAULTS: dict[str, Callable[[Strike], None]] = {
    "trainer": _process, "worker": _process, "rank": _process, "agent": _process,
    "rules": _rules, "dashboard": _dashboard, "clock": _clock, "store": _store, "spool": _spool,
    "segment": _file("temporary", "holter-*/*.seg"), "head": _file("temporary", "holter-*/*.head"),
    "journal": _file("temporary", "holter-*/*.journal"), "orders": _file("temporary", "holter-*/*.orders"),
    "manifest": _file("store", "*/job.json"), "parquet": _file("store", "*/*/*/*.parquet"),
}  # fmt: skip
