"""Samples the stack of the thread that builds batches, from a sampler thread with a low rate.

It works for any dataset and sees Python frames only. Its rate falls where a sample is expensive. It
sleeps while no batch is being built.
"""

from __future__ import annotations

import os
import random
import sys
import threading
from time import perf_counter_ns, thread_time_ns
from typing import TYPE_CHECKING

from holter.recorder.frameworks.pytorch.data.fetching import UNKNOWN, Kinds, Ledger
from holter.recorder.frameworks.pytorch.data.paths import Paths
from holter.recorder.sampling.other_threads import reading_frames
from holter.recorder.switch_interval import SwitchInterval
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from types import CodeType

    from holter.recorder.frameworks.pytorch.data.fetching import Fetching
    from holter.recorder.session import Session

INTERVAL_S = 0.02
COST_SHARE = 200
"""A sample may cost one part in this many of the time between samples."""
MAX_PATIENCE = 8.0
"""Largest factor on the interval, where samples rarely find a batch being built."""
IDLE_S = 1.0
SWITCH_S = 0.0002
"""Switch interval of Python while batches are built."""
ON_TIME_NS = 250_000
"""A sample that is later than this came when the dataset released the lock."""
_STACK = int(Phase.STACK)


class StackSampler:
    """Writes STACK records for one process; made anew in each process that builds batches."""

    def __init__(self, session: Session, fetching: Fetching, fetch_codes: tuple[CodeType, ...]) -> None:
        self.pid = os.getpid()
        self.asleep = False
        self._session = session
        self._fetching = fetching
        self._paths = Paths(session, fetch_codes)
        self._awake = threading.Event()
        self._stopped = False
        self._switch = SwitchInterval(SWITCH_S)
        # Not the global generator: its state belongs to the script.
        self._random = random.Random(self.pid)  # noqa: S311
        session.background.start("holter-stacks", self._run, self.stop)

    def wake(self) -> None:
        """Sample again, because batches are being built."""
        self.asleep = False
        self._awake.set()

    def stop(self) -> None:
        """Make the thread end soon."""
        self._stopped = True
        self._awake.set()

    def _run(self) -> None:
        breaker = self._session.breaker("pytorch.stacks")
        fetching, ledger, kinds = self._fetching, Ledger(), Kinds()
        interval = INTERVAL_S
        looked = perf_counter_ns()
        last = 0
        patience = 1.0
        self._switch.shorten()
        # Random intervals, so that samples do not follow a rhythm of the dataset.
        while not self._stopped and breaker.on:
            pause = interval * patience * (0.5 + self._random.random())
            soon = perf_counter_ns() + int(pause * 1e9) + ON_TIME_NS
            if self._awake.wait(pause):
                self._awake.clear()
            try:
                now = perf_counter_ns()
                if not fetching.began:
                    patience = min(patience * 1.5, MAX_PATIENCE)
                    if now - looked > IDLE_S * 1e9:
                        self._write(last, now, ledger.rest())
                        self._sleep()
                    continue
                patience = max(patience / 2, 1.0)
                known = self._paths.count
                cpu = thread_time_ns()
                files = fetching.files
                with reading_frames:
                    frame = sys._current_frames().get(fetching.thread)
                    name = self._paths.name(frame)
                    del frame
                state = UNKNOWN if files is None else files.state()
                computes = kinds.computes(name, state, late=perf_counter_ns() > soon)
                if name:
                    last, looked = name, now
                    ledger.add(*fetching.totals(now))
                    self._write(name, now, ledger.draw(computes))
                if self._paths.count == known:  # a new name is expensive, but only once
                    cost = (thread_time_ns() - cpu) / 1e9
                    interval = max(INTERVAL_S, 0.7 * interval + 0.3 * cost * COST_SHARE)
            except Exception as error:
                breaker.fault(error)
        self._switch.restore()
        self._write(last, perf_counter_ns(), ledger.rest())

    def _write(self, name: int, now: int, duration: int) -> None:
        if name and duration > 0:
            self._session.thread_spool().add(_STACK, name, now, duration)

    def _sleep(self) -> None:
        """Wait until batches are built again."""
        self.asleep = True
        self._switch.restore()
        if not self._fetching.began and not self._stopped:
            self._awake.wait()
        self._switch.shorten()
