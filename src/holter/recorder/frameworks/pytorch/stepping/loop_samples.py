"""Samples the stack of the training thread while none of its spans is open: the loop's own code.

A sampler thread wakes at random moments, often while the loop's own code runs and rarely while spans explain
the time. The training thread does nothing for it.
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
from inspect import CO_GENERATOR
from itertools import islice
from opcode import opmap
from time import perf_counter_ns, thread_time_ns
from typing import TYPE_CHECKING, NamedTuple

from holter.recorder.failure import PASSED_OVER
from holter.recorder.frameworks.pytorch.data.paths import frame_text, is_library
from holter.recorder.switch_interval import SwitchInterval
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

    from holter.recorder.session import Session

INTERVAL_S = 0.02
"""Mean time between the first samples of the loop's own code."""
MAX_INTERVAL_S = 0.2
"""Mean time between samples while spans explain the time, and after many samples."""
SWITCH_S = 0.0005
"""Switch interval of Python while the loop's own code runs."""
COST_SHARE = 200
"""Sampling takes at most one part in this many of a core while the loop's own code runs."""
ENOUGH = 300
"""After each so many samples the interval grows by its first length."""
MAX_FRAMES = 6
MAX_PATHS = 4096
_MAX_DEPTH = 256
_FOR_ITER = opmap["FOR_ITER"]
_CALL = re.compile(r"[A-Za-z_][\w.]*")
_LOOP_STACK, _ANNOTATION = int(Phase.LOOP_STACK), int(Phase.ANNOTATION)
_OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))) + os.sep


class LoopSampler:
    """Writes LOOP_STACK records about one thread of this process."""

    def __init__(self, session: Session, thread: Callable[[], int], torch_folder: str) -> None:
        self._session = session
        self._thread = thread
        self._torch = torch_folder
        self._stop = threading.Event()
        self._pid = 0
        """The process whose sampler thread runs."""
        self._loop: dict[int, LoopCode] = {}
        """The loop and its callers, by the id of their code."""
        self._known: dict[tuple[tuple[int, int], ...], int] = {}
        """Name ids of stacks."""
        self._kept: list[CodeType] = []
        """The code in the keys of `_known`; kept alive, so that no other code gets its id."""

    def learn(self) -> None:
        """Remember the loop: the code that ends a step, with its callers. The first call starts the sampler.

        Called by the training thread at the end of a step, from within a hook.
        """
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith((self._torch, _OURS)):
            frame = frame.f_back
        while frame is not None:
            known = self._loop.get(id(frame.f_code))
            calls = frozenset() if known is None else known.calls
            self._loop[id(frame.f_code)] = LoopCode(frame.f_code, calls | {frame.f_lasti})
            frame = frame.f_back
        if self._pid != os.getpid():  # a forked child has no thread of its parent
            self._pid = os.getpid()
            linecache.getline(__file__, 1)  # imports its modules here, not while another thread forks
            threading.Thread(target=self._run, name="holter-loop", daemon=True).start()

    def stop(self) -> None:
        """End the sampling soon."""
        self._stop.set()

    def _run(self) -> None:
        breaker = self._session.breaker("pytorch.loop_samples")
        # Not the global generator: its state belongs to the script.
        moments = random.Random(os.getpid())  # noqa: S311
        switch = SwitchInterval(SWITCH_S)
        least = interval = INTERVAL_S
        before, samples = perf_counter_ns(), 0
        while breaker.on and not self._stop.wait(interval * (0.5 + moments.random())):
            try:
                began, now, known = thread_time_ns(), perf_counter_ns(), len(self._known)
                thread = self._thread()
                explained = self._explained(thread)
                if explained is None:
                    continue
                if explained:
                    interval = min(interval * 1.25, max(MAX_INTERVAL_S, least))
                    if interval > 3 * least:
                        switch.restore()
                else:
                    name = self._name(sys._current_frames().get(thread))
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

    def _explained(self, thread: int) -> bool | None:
        """Return whether a span of a known part is open on a thread; None when the thread has no spool."""
        for spool in self._session.threads.all:
            if spool.thread == thread:
                return any(code & 255 != _ANNOTATION for _, code in spool.open_spans())
        return None

    def _write(self, name: int, now: int, duration: int) -> None:
        if name:
            self._session.thread_spool().add(_LOOP_STACK, name, now - duration, duration)

    def _name(self, frame: FrameType | None) -> int:
        """Return the name id of a stack, from the loop inwards; 0 for none."""
        frames: list[FrameType] = []
        while frame is not None and len(frames) < _MAX_DEPTH:
            if id(frame.f_code) in self._loop:
                frames.append(frame)
                break
            if not frame.f_code.co_filename.startswith(_OURS):
                frames.append(frame)
            frame = frame.f_back
        frames.reverse()
        if not frames:
            return 0
        key = tuple((id(each.f_code), each.f_lasti) for each in frames)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MAX_PATHS:
                return self._session.name("(other)")
            self._kept += [each.f_code for each in frames]
            known = self._known[key] = self._session.name(_text(frames, self._loop))
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


def _text(frames: list[FrameType], loop: dict[int, LoopCode]) -> str:
    """Return the frames of a stack, the loop's first, then what the user's innermost frame calls.

    `train (a.py:9);stream (a.py:4) [iterator] > time.sleep`; below the user's code the innermost frame of a
    library follows: `train (a.py:9) > batches.get > wait (threading.py:327)`.
    """
    last = max((at for at, each in enumerate(frames) if not is_library(each.f_code)), default=0)
    iterators = _iterators(frames, loop)
    shown = [at for at in range(len(frames)) if at <= max(last, iterators)]
    # Both ends stay; of the middle, frames of libraries go first.
    middle = sorted(shown[1:-1], key=lambda at: (at != iterators, is_library(frames[at].f_code), -at))
    shown = [*shown[:1], *sorted(middle[: MAX_FRAMES - 2]), *shown[1:][-1:]]
    text = ";".join(_frame(frames[at]) + (" [iterator]" if 0 < at == iterators else "") for at in shown)
    called = _called(frames[shown[-1]])
    text += f" > {called}" if called else ""
    return text + (f" > {_frame(frames[-1])}" if shown[-1] < len(frames) - 1 else "")


def _iterators(frames: list[FrameType], loop: dict[int, LoopCode]) -> int:
    """Return the place of the innermost iterator that the loop takes items from; 0 for none.

    Iterators are generators and `__next__` that `for` or `next` calls.
    """
    if id(frames[0].f_code) not in loop:
        return 0
    found = 0
    for at in range(1, len(frames)):
        code = frames[at].f_code
        if not (code.co_flags & CO_GENERATOR or code.co_name == "__next__"):
            break
        caller = frames[at - 1]
        if caller.f_code.co_code[caller.f_lasti] == _FOR_ITER:
            if at == 1 and not loop[id(caller.f_code)].iterates_at(caller.f_lasti):
                break
        elif _called(caller) != "next":
            break
        found = at
    return found


def _called(frame: FrameType) -> str:
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


def _frame(frame: FrameType) -> str:
    return frame_text(frame.f_code, frame.f_lineno or frame.f_code.co_firstlineno)
