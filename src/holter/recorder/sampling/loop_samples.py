"""Samples the stack of the training thread while none of its spans is open: the loop's own code.

A sampler thread wakes at random moments, often while the loop's own code runs and rarely while spans explain
the time. The training thread only shows it the loop: at the end of the first step, and of one step for each
new optimizer or, where an adapter asks `due`, now and then: a script may have several loops.
"""

from __future__ import annotations

import ast
import dis
import linecache
import os
import random
import re
import sys
import threading
import time
from contextlib import nullcontext
from inspect import CO_GENERATOR
from itertools import islice
from opcode import opmap
from time import perf_counter_ns, thread_time_ns
from typing import TYPE_CHECKING, Any, NamedTuple

from holter.recorder.patches import PASSED_OVER
from holter.recorder.sampling.frames import frame_text, is_library
from holter.recorder.sampling.holders import Holders
from holter.recorder.sampling.producers import Seen, is_queue, producer, waits
from holter.recorder.spool.thread_spool import NAN
from holter.recorder.switch_interval import SwitchInterval, wake_on_time
from holter.schema.phases import HOLDS, Phase

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

    from holter.recorder.sampling.producers import Producer
    from holter.recorder.session import Session
    from holter.recorder.spool.thread_spool import ThreadSpool

    Copied = tuple[CodeType, int, int | None, dict[str, Any]]

INTERVAL_S = 0.02
"""Mean time between the first samples of the loop's own code."""
MAX_INTERVAL_S = 0.2
"""Mean time between samples while spans explain the time, and after many samples."""
SWITCH_S = 0.0005
"""Switch interval of Python while the loop's own code runs."""
LAST_SWITCH_S = 0.00001
"""Switch interval just before a sample. The sampler gets the interpreter lock after it, or at an operator: it
never sees stretches of Python between operators that are shorter."""
LAST_S = 0.002
"""How long that lasts at most. It ends at random, because the wake before it comes at such an operator."""
COST_SHARE = 200
"""Sampling takes at most one part in this many of a core while the loop's own code runs."""
ENOUGH = 300
"""After each so many samples the interval grows by its first length. Also spans that explain the time make it
grow after so many moments only, because a short loop has few."""
MAX_FRAMES = 6
MAX_PATHS = 4096
AGAIN_NS = 300_000_000
"""Time after which the loop is `due` again."""
_MAX_DEPTH = 256
_FOR_ITER = opmap["FOR_ITER"]
_DELEGATES = {opmap[name] for name in ("SEND", "YIELD_FROM") if name in opmap}
_CALL = re.compile(r"[A-Za-z_][\w.]*")
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
        # Not the global generator: its state belongs to the script.
        moments = random.Random(os.getpid())  # noqa: S311
        switch = SwitchInterval(SWITCH_S)
        wake_on_time()
        switch.shorten()
        least = interval = INTERVAL_S
        before, wakes, samples, holders = perf_counter_ns(), 0, 0, Holders()
        while breaker.on:
            pause = interval * (0.5 + moments.random())
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
                # Where the training holds the lock for longer, this wake shows what does; to ask for the lock
                # again and again would cost more than the sample.
                soon = woke - due < int(1e9 * LAST_S)
                with switch.at_once(LAST_SWITCH_S) if soon else nullcontext():
                    if soon:
                        time.sleep(LAST_S * moments.random())
                    # Both at one moment: the training soon gets the lock back.
                    spans, stack = spool.open_spans(), _stack(thread)
                now, part = perf_counter_ns(), _part(spans)
                name = 0 if part else self._name(thread, stack, moments.choice)
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

    def sample_any(self, duration: int) -> None:
        """Write a sample that stands for `duration` ns, whatever part is open."""
        thread, now = self._thread(), perf_counter_ns()
        spool = self._spool(thread)
        if spool is not None:
            part = _part(spool.open_spans())
            name = self._name(thread, _stack(thread), lambda several: several[0])
            self._write(name, now, duration, float(part))

    def _spool(self, thread: int) -> ThreadSpool | None:
        """Return the spool of a thread; None when it has none."""
        return next((spool for spool in self._session.threads.all if spool.thread == thread), None)

    def _write(self, name: int, now: int, duration: int, part: float = NAN) -> None:
        if name:
            self._session.thread_spool().add(_LOOP_STACK, name, now - duration, duration, part)

    def _frames(self, stack: list[Copied]) -> list[Seen]:
        """Return the frames of a stack, from the loop inwards."""
        frames: list[Seen] = []
        for one in stack:
            if id(one[0]) in self._loop:
                frames.append(Seen(*one))
                break
            if not one[0].co_filename.startswith(_OURS):
                frames.append(Seen(*one))
        frames.reverse()
        return frames

    def _name(self, thread: int, stack: list[Copied], chosen: Callable[[list[Producer]], Producer]) -> int:
        """Return the name id of a thread's stack, from the loop inwards; 0 for none."""
        frames = self._frames(stack)
        if not frames:
            return 0
        other = None
        if waits(frames[-1], _called(frames[-1])):
            other = producer((thread, threading.get_ident()), _called, chosen)
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
            text = _text(frames, self._loop) + (_waited_for(other) if other else "")
            known = self._known[key] = self._session.name(text)
        return known


class LoopCode(NamedTuple):
    """Code of the loop; kept alive, so that no other code gets its id."""

    code: CodeType
    calls: frozenset[int]
    """Offsets of the calls that lead to the end of a step."""

    def iterates_at(self, offset: int) -> bool:
        """Return whether the `for` at an offset encloses one of these calls: the training's own loop."""
        for instruction in dis.get_instructions(self.code):
            if instruction.offset == offset and instruction.opname == "FOR_ITER":
                return any(offset < call < instruction.argval for call in self.calls)
        return False


def _part(spans: list[tuple[int, int]]) -> int:
    """Return the outermost known part of some open spans, or 0."""
    return next((code & 255 for _, code in spans if code & 255 != _ANNOTATION), 0)


def _stack(thread: int) -> list[Copied]:
    """Return copies of a thread's frames, the innermost first; frames themselves hold tensors.

    It is quick, because the thread goes on as soon as it gets the lock.
    """
    found: list[Copied] = []
    frame = sys._current_frames().get(thread)
    while frame is not None and len(found) < _MAX_DEPTH:
        found.append((frame.f_code, frame.f_lasti, frame.f_lineno, frame.f_globals))
        frame = frame.f_back
    return found


def _text(frames: list[Seen], loop: dict[int, LoopCode]) -> str:
    """Return the frames of a stack, the loop's first, then what the user's innermost frame calls.

    `train (a.py:9);stream (a.py:4) [generator] > time.sleep`; below the user's code the innermost frame of a
    library follows, or that of a queue: `train (a.py:9) > batches.get > Queue.get (queue.py:171)`.
    """
    last = max((at for at, each in enumerate(frames) if not is_library(each.f_code)), default=0)
    iterators = _iterators(frames, loop)
    shown = [at for at in range(len(frames)) if at <= max(last, iterators)]
    # Both ends stay; of the middle, frames of libraries go first.
    middle = sorted(shown[1:-1], key=lambda at: (at != iterators, is_library(frames[at].f_code), -at))
    shown = [*shown[:1], *sorted(middle[: MAX_FRAMES - 2]), *shown[1:][-1:]]
    marked = " [generator]" if frames[iterators].f_code.co_flags & CO_GENERATOR else " [iterator]"
    text = ";".join(_frame(frames[at]) + (marked if 0 < at == iterators else "") for at in shown)
    called = _called(frames[shown[-1]])
    text += f" > {called}" if called else ""
    below = frames[shown[-1] + 1 :]
    waits_at = next((each for each in below if is_queue(each.f_code)), below[-1] if below else None)
    return text + (f" > {_frame(waits_at)}" if waits_at is not None else "")


def _waited_for(other: Producer) -> str:
    """Return the thread that the training waits for: ` < thread loader;fill (a.py:5);decode (a.py:7)`.

    One of several threads that may be the one follows `&` instead.
    """
    name = other.name.replace(";", ",").replace("<", "(").replace(">", ")")
    return (" < " if other.only else " & ") + ";".join([name, *map(_frame, other.frames)])


def _iterators(frames: list[Seen], loop: dict[int, LoopCode]) -> int:
    """Return the place of the innermost iterator that the loop takes items from; 0 for none.

    It is what runs while a `for`, a `yield from` or `next` waits for an item: a generator, a `__next__`, a
    `__getitem__`, or the function of a `map`.
    """
    if id(frames[0].f_code) not in loop:
        return 0
    found = 0
    for at in range(1, len(frames)):
        caller = frames[at - 1]
        instruction = caller.f_code.co_code[caller.f_lasti]
        if instruction == _FOR_ITER:
            if at == 1 and not loop[id(caller.f_code)].iterates_at(caller.f_lasti):
                break
        elif not (instruction in _DELEGATES and found) and _called(caller) != "next":
            break
        found = at
    return found


def _called(frame: Seen) -> str:
    """Return the name of the call that runs in a frame, as in its source; empty where it is unknown."""
    if sys.version_info < (3, 11):
        return ""
    line, end, first, last = next(
        islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None, None, None, None)
    )
    if line is None or first is None or last is None:
        return ""
    source = linecache.getline(frame.f_code.co_filename.removesuffix(PASSED_OVER), line, frame.f_globals)
    text = source.encode()[first : last if line == end else None].decode(errors="replace")
    try:
        called: ast.expr | None = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):  # a call of several lines: its beginning
        match = _CALL.match(text)
        return match[0] if match and text[match.end() :].startswith("(") else ""
    # Operators and subscripts run in the code of the frame itself.
    return _name_of(called.func) if isinstance(called, ast.Call) else ""


def _name_of(called: ast.expr) -> str:
    """Return the name of what is called, without arguments: `pool.submit().result`, `peers[].recv`."""
    match called:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=owner, attr=name):
            return f"{_name_of(owner) or '()'}.{name}"
        case ast.Call(func=function):
            return f"{_name_of(function)}()"
        case ast.Subscript(value=owner):
            return f"{_name_of(owner)}[]"
    return ""


def _frame(frame: Seen) -> str:
    return frame_text(frame.f_code, frame.f_lineno or frame.f_code.co_firstlineno)
