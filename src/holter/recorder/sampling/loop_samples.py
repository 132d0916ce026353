"""Samples the stack of the training thread while none of its spans is open: the loop's own code.

A sampler thread wakes at random moments, often while the loop's own code runs and rarely while spans explain
the time. The training thread only shows it the loop: at the end of the first step, and of one step for each
new optimizer or, where an adapter asks `due`, now and then: a script may have several loops.
"""

from __future__ import annotations

import linecache
import os
import random
import sys
import threading
import time
from contextlib import nullcontext
from time import perf_counter_ns, thread_time_ns
from typing import TYPE_CHECKING

from holter.recorder.sampling.holders import Holders
from holter.recorder.sampling.other_threads import reading_frames
from holter.recorder.sampling.producers import Seen, producer, waits
from holter.recorder.sampling.stack_text import LoopCode, called_in, stack_text, waited_for
from holter.recorder.spool.thread_spool import NAN
from holter.recorder.switch_interval import SwitchInterval, wake_on_time
from holter.schema.phases import HOLDS, Phase

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

    from holter.recorder.sampling.producers import Producer
    from holter.recorder.session import Session
    from holter.recorder.spool.thread_spool import ThreadSpool

INTERVAL_S = 0.02
"""Mean time between the first samples of the loop's own code."""
MAX_INTERVAL_S = 0.2
"""Mean time between samples while spans explain the time, and after many samples."""
SWITCH_S = 0.0005
"""Switch interval of Python while the loop's own code runs."""
LAST_SWITCH_S = 0.00001
"""Switch interval just before a sample. Shorter stretches of Python between operators are not seen."""
LAST_S = 0.002
"""How long that lasts at most. It ends at random, because the wake before it comes at such an operator."""
COST_SHARE = 200
"""Sampling takes at most one part in this many of a core while the loop's own code runs."""
ENOUGH = 300
"""So many moments are looked at in the shortest interval, because a short loop has few. After each so many
samples the interval grows by its first length."""
MAX_PATHS = 4096
AGAIN_NS = 300_000_000
"""Time after which the loop is `due` again."""
_MAX_DEPTH = 256
_LOOP_STACK, _ANNOTATION = int(Phase.LOOP_STACK), int(Phase.ANNOTATION)
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class LoopSampler:
    """Writes LOOP_STACK records about one thread of this process."""

    def __init__(self, session: Session, thread: Callable[[], int], framework: str) -> None:
        """Prepare the sampling.

        Args:
            session: Records this process.
            thread: Returns the thread to sample, as `threading.get_ident` does; 0 while there is no loop.
            framework: Folder of the framework that runs a step; its callers are the loop.
        """
        self._session = session
        self._thread = thread
        self._framework = os.path.join(framework, "")
        self._stop = threading.Event()
        # Not the global generator: its state belongs to the script.
        self._moments = random.Random(os.getpid())  # noqa: S311
        self._pid = 0
        """The process whose sampler thread runs."""
        self._loop: dict[int, LoopCode] = {}
        """The loop and its callers, by the id of their code."""
        self._known: dict[tuple[tuple[int, int], ...], int] = {}
        """Name ids of stacks."""
        self._kept: list[CodeType] = []
        """The code in the keys of `_known`; kept alive, so that no other code gets its id."""
        self.due = True
        """Whether the training thread should show the loop."""
        self._shown = 0
        """When it did so last, monotonic ns."""
        self.on_wake: Callable[[int], None] = lambda phase: None
        """Called with the part that is open, 0 in the loop's own code, each time the sampler wakes."""

    def learn(self) -> None:
        """Remember the loop: the code that ends a step, with its callers. The first call starts the sampler.

        Of several samplers in a process, the one that was called last samples.

        Called by the training thread at the end of a step, from within a hook.
        """
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith((self._framework, _OURS)):
            frame = frame.f_back
        while frame is not None:
            known = self._loop.get(id(frame.f_code))
            calls = frozenset() if known is None else known.calls
            if frame.f_lasti not in calls:
                self._loop[id(frame.f_code)] = LoopCode(frame.f_code, calls | {frame.f_lasti})
                self._known = {}  # a `for` that enclosed no step so far may be a loop of the training
            frame = frame.f_back
        self._session.sampler, self._shown, self.due = self, perf_counter_ns(), False
        if self._pid != os.getpid():  # a forked child has no thread of its parent
            self._pid = os.getpid()
            linecache.getline(__file__, 1)  # imports its modules here, not while another thread forks
            self._session.background.start("holter-loop", self._run, self.stop)

    def stop(self) -> None:
        """End the sampling soon."""
        self._stop.set()

    def _run(self) -> None:
        breaker = self._session.breaker("loop_samples")
        switch = SwitchInterval(SWITCH_S)
        wake_on_time()
        switch.shorten()
        least = interval = INTERVAL_S
        before, wakes, samples, holders = perf_counter_ns(), 0, 0, Holders()
        while breaker.on:
            pause = interval * (0.5 + self._moments.random())
            holders.sleeps()
            due = perf_counter_ns() + int(1e9 * pause)
            if self._stop.wait(pause):
                break
            try:
                began, woke, known = thread_time_ns(), perf_counter_ns(), len(self._known)
                thread = self._thread() if self._session.sampler is self else 0
                spool = self._spool(thread)
                if spool is None:
                    interval, before = max(MAX_INTERVAL_S, least), woke
                    switch.restore()
                    continue
                held = holders.holder(woke - due, thread)
                # If the wake is late, some code holds the lock for long, and the stack shows it now.
                # To ask for the lock every 10 us would cost more than the sample.
                soon = woke - due < int(1e9 * LAST_S)
                with switch.at_once(LAST_SWITCH_S) if soon else nullcontext():
                    if soon:
                        time.sleep(LAST_S * self._moments.random())
                    # Both at one moment: the training soon gets the lock back.
                    part = _part(spool)
                    frames = [] if part else self._frames(thread)
                now, name = perf_counter_ns(), self._name(thread, frames, self._moments.choice)
                if held:
                    self._write(self._session.name(held), now, min(now - before, int(2e9 * interval)), HOLDS)
                self.due = self.due or now - self._shown > AGAIN_NS
                self.on_wake(part)
                wakes += 1
                if part and wakes > ENOUGH:
                    interval = min(interval * 1.25, max(MAX_INTERVAL_S, least))
                    if interval > 3 * least:
                        switch.restore()
                elif not part:
                    # A sample after a long pause stands for two intervals at most.
                    self._write(name, now, min(now - before, int(2e9 * interval)))
                    samples += 1
                    interval = min(least * (1 + samples / ENOUGH), max(MAX_INTERVAL_S, least))
                    switch.shorten()
                before, cost = now, thread_time_ns() - began
                self._session.thread_spool().spent(cost)
                if len(self._known) == known:  # a new stack costs more, but does not recur
                    least = max(INTERVAL_S, cost / 1e9 * COST_SHARE)
            except Exception as error:
                breaker.fault(error)
        switch.restore()

    def sample_any(self, duration: int, switch: SwitchInterval) -> None:
        """Write a sample that stands for `duration` ns, whatever part is open, unless a profiler switches."""
        thread = self._thread()
        spool = self._spool(thread)
        if spool is None:
            return
        with switch.at_once(LAST_SWITCH_S):
            time.sleep(min(LAST_S, duration / 1e9) * self._moments.random())
            now, part = perf_counter_ns(), _part(spool)
            frames = [] if self._session.windows.switching else self._frames(thread)
        self._write(self._name(thread, frames, self._moments.choice), now, duration, float(part))

    def _spool(self, thread: int) -> ThreadSpool | None:
        """Return the spool of a thread; None when it has none."""
        return next((spool for spool in self._session.threads.all if spool.thread == thread), None)

    def _write(self, name: int, now: int, duration: int, part: float = NAN) -> None:
        if name:
            self._session.thread_spool().add(_LOOP_STACK, name, now - duration, duration, part)

    def _frames(self, thread: int) -> list[Seen]:
        """Return copies of a thread's frames, from the loop inwards; frames themselves hold tensors."""
        frames: list[Seen] = []
        with reading_frames:
            frame = sys._current_frames().get(thread)
            while frame is not None and len(frames) < _MAX_DEPTH:
                if id(frame.f_code) in self._loop:
                    frames.append(Seen.of(frame))
                    break
                if not frame.f_code.co_filename.startswith(_OURS):
                    frames.append(Seen.of(frame))
                frame = frame.f_back
        frames.reverse()
        return frames

    def _name(self, thread: int, frames: list[Seen], chosen: Callable[[list[Producer]], Producer]) -> int:
        """Return the name id of a thread's frames, from the loop inwards; 0 for none."""
        if not frames:
            return 0
        other = None
        if waits(frames[-1], called_in(frames[-1])):
            other = producer((thread, threading.get_ident()), called_in, chosen)
        # The producer by line: with its instructions there would be as many keys as pairs of them.
        ends = other.frames if other else []
        key = (
            *((id(each.f_code), each.f_lasti) for each in frames),
            *((id(each.f_code), each.f_lineno or 0) for each in ends),
        )
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MAX_PATHS:
                return self._session.name("(other)")
            self._kept += [each.f_code for each in (*frames, *ends)]
            text = stack_text(frames, self._loop) + (waited_for(other) if other else "")
            known = self._known[key] = self._session.name(text)
        return known


def _part(spool: ThreadSpool) -> int:
    """Return the outermost known part that is open on a thread, or 0."""
    return next((code & 255 for _, code in spool.open_spans() if code & 255 != _ANNOTATION), 0)
