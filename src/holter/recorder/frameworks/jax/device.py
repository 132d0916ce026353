"""Reads losses and measures the device in a thread of its own, so that the training never waits for it."""

from __future__ import annotations

import os
import threading
from collections import deque
from queue import Empty, SimpleQueue
from statistics import median
from time import perf_counter_ns, thread_time_ns
from typing import TYPE_CHECKING, Any, NamedTuple

from holter.recorder.frameworks.jax.outputs import is_finite, numbers
from holter.recorder.switch_interval import SwitchInterval

if TYPE_CHECKING:
    from holter.recorder.session import Session

PAUSE_S = 0.1
"""Time between two pairs of neighbouring steps that are measured."""
MOST_READ = 50
"""Steps of which the numbers are read for each such time. Of more steps, some are left out."""
LARGEST_HELD = 1 << 20
"""Bytes of an array of the state that may be held."""
_KEPT = 8192
"""Steps whose numbers may wait to be read."""
_MEASURED = 512
"""The newest times of the device of which the median counts."""
_SWITCH_S = 0.0005


class _Step(NamedTuple):
    step: int
    names: list[str]
    values: list[Any]


class _Timed(NamedTuple):
    began: int
    ended: int
    output: Any
    ready: bool
    """Whether the step was computed when its call returned."""


class DeviceWatch:
    """Waits for outputs of the steps: of all to read them, of few neighbouring ones to measure the device.

    Only scalars are held: state may be donated to the next step, and is large. Of a step that returns its
    state only, the smallest array is held while the device is measured.
    """

    def __init__(self, session: Session, jax: Any) -> None:
        self._session, self._jax = session, jax
        self.breaker = session.breaker("jax.device")
        self._steps: deque[_Step] = deque(maxlen=_KEPT)
        self._queue: SimpleQueue[_Timed] = SimpleQueue()
        self._wanted = 0
        """Steps that the thread asks for."""
        self._stop = threading.Event()
        self._pid = 0
        """The process whose thread runs."""
        self._ident = 0
        self._took: deque[int] = deque(maxlen=_MEASURED)
        self._count, self._told = 0, 0
        self._finite = True
        self._reading = threading.Lock()
        self._read_at = perf_counter_ns()

    @property
    def thread(self) -> int:
        """The thread that waits."""
        return self._ident

    def add(self, step: int, began: int, ended: int, names: list[str], values: list[Any]) -> None:
        """Take the outputs of a step whose call began and ended then, monotonic ns."""
        self._steps.append(_Step(step, names, values))
        self._time(began, ended, values[0])
        self._start()

    def add_state(self, began: int, ended: int, array: Any) -> None:
        """Take the smallest array of a step that returns its state only; it is held if it is measured."""
        if array.nbytes <= LARGEST_HELD:
            self._time(began, ended, array)
            self._start()

    def _time(self, began: int, ended: int, output: Any) -> None:
        if self._wanted:
            self._wanted -= 1
            self._queue.put(_Timed(began, ended, output, output.is_ready()))

    def _start(self) -> None:
        if self._pid != os.getpid():  # a forked child has no thread of its parent
            self._pid = os.getpid()
            self._reading = threading.Lock()
            self._stop.clear()
            self._session.background.start("holter-jax", self._run, self._stop.set)

    def stop(self) -> None:
        """End the thread, and write what is computed by now."""
        self._stop.set()
        if self._pid == os.getpid():
            self._read(_KEPT)
            self._tell()

    def _run(self) -> None:
        self._ident = threading.get_ident()
        switch = SwitchInterval(_SWITCH_S)
        while self.breaker.on and not self._stop.wait(PAUSE_S):
            began = thread_time_ns()
            try:
                self._read()
                self._measure(switch)
            except Exception as error:
                self.breaker.fault(error)
            finally:
                switch.restore()
            self._session.thread_spool().spent(thread_time_ns() - began)

    # -- time of the device

    def _measure(self, switch: SwitchInterval) -> None:
        """Measure one step: it begins when it was called, or when the step before it was computed."""
        self._wanted = 2
        first = self._next()
        if first is None:
            return
        switch.shorten()
        before = self._computed(first)
        second = self._next()
        if second is None or before is None:
            return
        after = self._computed(second)
        if after is not None:
            self._took.append(after - max(before, second.began))
            self._count += 1
            if self._count >= 2 * self._told:
                self._tell()

    def _next(self) -> _Timed | None:
        """Return the next step that was asked for; None if the training ends meanwhile."""
        while not self._stop.is_set():
            try:
                return self._queue.get(timeout=PAUSE_S)
            except Empty:
                self._read()
        self._wanted = 0
        return None

    def _computed(self, step: _Timed) -> int | None:
        """Wait until a step is computed, and return when it was; None if its output is gone."""
        if step.ready:
            return step.ended
        try:
            self._jax.block_until_ready(step.output)
        except RuntimeError:  # the script has donated the output, or the step has failed
            return None
        return perf_counter_ns()

    def _tell(self) -> None:
        if self._took and self._count > self._told:
            self._told = self._count
            fact = {"time": perf_counter_ns(), "step": self._session.step, "steps": self._count}
            self._session.journal("device_time", {**fact, "median_ns": int(median(self._took))})

    # -- numbers

    def _read(self, most: int = 0) -> None:
        """Write the numbers of computed steps, of at most so many, and of all before the first wild one.

        By default that is as many as the time since the last reading allows: on a busy machine it is late.
        """
        with self._reading:  # the script may end meanwhile, and its thread reads the last numbers
            now = perf_counter_ns()
            since, self._read_at = (now - self._read_at) / 1e9, now
            self._write_computed(most or int(MOST_READ * max(1.0, since / PAUSE_S)))

    def _write_computed(self, most: int) -> None:
        ready: list[_Step] = []
        while self._steps and (len(ready) < _KEPT) and _is_ready(self._steps[0]):
            ready.append(self._steps.popleft())
        every = -(-len(ready) // most) if ready else 1
        since = 0
        for at in range((len(ready) - 1) % every, len(ready), every) if ready else ():
            finite = self._write(ready[at])
            if self._finite and not finite:
                for between in ready[since:at]:
                    self._write(between)
                self._finite = False
            since = at + 1

    def _write(self, step: _Step) -> bool:
        """Write the numbers of a step; return whether they are finite."""
        finite = True
        for name, value in zip(step.names, step.values, strict=True):
            if name in self._session.logged_names:
                continue
            try:
                found = numbers(_on_host(value))
            except RuntimeError:  # donated or failed
                continue
            if len(found) > 1 and len(value.sharding.device_set) == len(found):
                found = found[:1]  # one for each device of `pmap`
            for at, number in enumerate(found):
                self._session.scalar(name, number, step.step - len(found) + 1 + at)
            finite = finite and is_finite(found)
        return finite


def _is_ready(step: _Step) -> bool:
    try:
        return all(value.is_ready() for value in step.values)
    except RuntimeError:  # gone: its numbers are left out
        return True


def _on_host(value: Any) -> Any:
    """Return an output in the memory of the host."""
    here = value if value.is_fully_addressable else value.addressable_data(0)
    return here._value
