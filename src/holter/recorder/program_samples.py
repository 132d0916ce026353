"""Samples the stack of a Python program that no adapter records, from a thread of its own.

Loaded at the start of every Python child of a recorded job. It imports only what is loaded anyway, and never
`threading`: imported first by this thread, that module would take it for the main thread.
"""

from __future__ import annotations

import _thread
import os
import sys
import time

from holter.recorder import STARTED_NS
from holter.recorder.sampling.frames import frame_text, is_library
from holter.recorder.sampling.other_threads import reading_frames
from holter.schema.programs import samples_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType

    from holter.recorder.session import Session

AFTER_S = 1.0
"""A shorter program is not sampled."""
INTERVAL_S = 0.02
MAX_INTERVAL_S = 0.2
ENOUGH = 500
"""After each so many samples the interval grows by its first length."""
COST_SHARE = 200
"""Sampling takes at most one part in this many of a core."""
PART_S = 10.0
SWITCH_S, PYTHON_SWITCH_S = 0.0005, 0.005
"""Python's switch interval while this thread samples (see decision 6), and its usual one."""
LEAST_S = 0.5
"""A program that was sampled for a shorter time writes nothing: it is a start and an end."""
IDLE_SHARE = 10
"""A process without code of the user's own writes if it computes for one part in this many of its time."""
MAX_STACKS = 2000
_MAX_DEPTH = 60
_STOP_S = 5.0
_WAITS = ("threading.py", "queue.py", "queues.py", "selectors.py", "connection.py", "_base.py", "thread.py")
"""Modules of Python in which a thread waits for others; then another thread is the one to sample."""


class ProgramSampler:
    """Samples one process until an adapter records it."""

    def __init__(self, directory: str, started: int) -> None:
        self._directory = directory
        self._key = f"{os.getpid()}-{started}"
        self._main = _thread.get_ident()
        self._wake = _thread.allocate_lock()
        self._ended = _thread.allocate_lock()
        self._part = 0
        self._stacks: dict[tuple[int, ...], list[int]] = {}
        """Samples and ns by stack."""
        self._codes: dict[int, CodeType] = {}
        """The code in these keys; kept alive, so that no other code gets its id."""
        self._begins: dict[int, frozenset[int]] = {}
        """Where functions begin, or go on as generators, by the id of their code."""
        self._resume = -1
        self._begin = self._computed = self._cost = self._seen = 0
        """Where this part begins, and how long the process had computed by then; what sampling cost, ns."""
        self._after = AFTER_S
        self.done = False
        """Whether an adapter records the process, so that this ends for good."""

    def begin(self) -> None:
        """Start the thread."""
        self._wake, self._ended = _thread.allocate_lock(), _thread.allocate_lock()
        self._wake.acquire()
        self._ended.acquire()
        _thread.start_new_thread(self._run, ())

    def end(self) -> bool:
        """Ask the thread to end; return whether it did."""
        if self._wake.locked():
            self._wake.release()
        return self._ended.acquire(timeout=_STOP_S)

    def write(self) -> None:
        """Write what was sampled since the last part, unless that is nothing but waiting for others."""
        stacks, self._stacks = self._stacks, {}
        now, computed = time.perf_counter_ns(), time.process_time_ns()
        sampled = sum(ns for _, ns in stacks.values())
        own = any(stack[1] >= 0 for stack in stacks)
        idle = not own and (computed - self._computed) * IDLE_SHARE < now - self._begin
        if not stacks or idle or (self._part == 0 and sampled < LEAST_S * 1e9):
            self._begin, self._computed = now, computed
            return
        lines = [f"{self._begin} {now} {self._cost}"]
        lines += [f"{count} {ns} {self._text(stack)}" for stack, (count, ns) in stacks.items()]
        self._begin, self._computed = now, computed
        self._cost, self._codes, self._begins = 0, {}, {}
        path = os.path.join(self._directory, samples_name(self._key, self._part))
        self._part += 1
        with open(path + ".new", "w", encoding="utf-8", errors="replace") as file:
            file.write("\n".join(lines) + "\n")
        os.replace(path + ".new", path)

    def _run(self) -> None:
        try:
            if not self._wake.acquire(timeout=self._after):
                self._after = 0.0
                self._sample()
        except Exception:  # noqa: S110  nothing is worth the program; the agent sees that samples are missing
            pass
        finally:
            self._ended.release()

    def _sample(self) -> None:
        shortened = abs(sys.getswitchinterval() - PYTHON_SWITCH_S) < 1e-4
        if shortened:
            sys.setswitchinterval(SWITCH_S)
        try:
            from opcode import opmap

            self._resume = opmap.get("RESUME", -1)
            before = time.perf_counter_ns()
            if not self._begin:
                self._begin, self._computed = before, time.process_time_ns()
            pause = INTERVAL_S
            while not self._wake.acquire(timeout=pause * (0.5 + before % 1000 / 1000)):
                began, now = time.thread_time_ns(), time.perf_counter_ns()
                if _recorded():
                    self.done = True  # what came before is the start-up of a training
                    break
                # A sample after a long pause, as of a stopped program, stands for two intervals at most.
                self._add(min(now - before, int(2e9 * pause)))
                if now - self._begin > PART_S * 1e9:
                    self.write()
                before, cost = now, time.thread_time_ns() - began
                self._cost += cost
                least = max(INTERVAL_S * (1 + self._seen / ENOUGH), cost / 1e9 * COST_SHARE)
                pause = min(least, MAX_INTERVAL_S)
        finally:
            if shortened and abs(sys.getswitchinterval() - SWITCH_S) < 1e-5:
                sys.setswitchinterval(PYTHON_SWITCH_S)

    def _add(self, duration: int) -> None:
        with reading_frames:
            frames = sys._current_frames()
            frame = frames.get(self._main)
            if len(frames) > 2 and frame is not None and _waits(frame.f_code):
                mine = _thread.get_ident()
                others = (one for thread, one in frames.items() if thread not in (mine, self._main))
                frame = next((one for one in others if not _waits(one.f_code)), frame)
            if frame is not None and frame.f_back is not None and self._enters(frame):
                frame = frame.f_back
            key = self._key_of(frame)
        if not key:
            return
        if key in self._stacks or len(self._stacks) < MAX_STACKS:
            known = self._stacks.setdefault(key, [0, 0])
            known[0] += 1
            known[1] += duration
            self._seen += 1

    def _enters(self, frame: FrameType) -> bool:
        """Return whether a function was just called: the time until then is not its own.

        Python code gives up the interpreter lock mostly where a function begins, so that functions would be
        found that did not run before. The caller is certain.
        """
        code = frame.f_code
        begins = self._begins.get(id(code))
        if begins is None:
            # The operation may be missing: Python 3.10 gives up the lock anywhere.
            code_of = code.co_code
            begins = frozenset(at for at in range(0, len(code_of), 2) if code_of[at] == self._resume)
            if id(code) in self._codes:
                self._begins[id(code)] = begins
        return frame.f_lasti in begins

    def _key_of(self, frame: FrameType | None) -> tuple[int, ...]:
        """Return the line of a script's own code, the place of the innermost own function, and all.

        Empty while the own code, or a process without such, imports a library: the program does not work yet.
        """
        key: list[int] = []
        line, own = 0, -1
        while frame is not None and len(key) < _MAX_DEPTH:
            code = frame.f_code
            if own < 0 and code.co_name == "_find_and_load" and code.co_filename.startswith("<frozen"):
                return ()
            if own < 0 and not is_library(code):
                # A script without functions has one name for all of its lines.
                own, line = len(key), frame.f_lineno or 0 if code.co_name == "<module>" else 0
            self._codes[id(code)] = code
            key.append(id(code))
            frame = frame.f_back
        return (line, own, *key)

    def _text(self, stack: tuple[int, ...]) -> str:
        """Return the place of the innermost own function from the outermost on, and the stack."""
        line, own, *numbers = stack
        codes = [self._codes[number] for number in numbers]
        texts = [
            frame_text(code, line if line and at == own else code.co_firstlineno)
            for at, code in enumerate(codes)
        ]
        joined = ";".join(reversed(texts)).replace("\n", " ")
        return f"{len(codes) - 1 - own if own >= 0 else -1} {joined}"


_sampler: ProgramSampler | None = None


def start(directory: str) -> None:
    """Sample this process from `AFTER_S` on; around forks the thread pauses."""
    global _sampler
    if _sampler is None:
        _sampler = ProgramSampler(directory, STARTED_NS)
        _sampler.begin()
        os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)


def stop() -> None:
    """End the sampling of this process, and write the last samples."""
    global _sampler
    ending, _sampler = _sampler, None
    try:
        if ending is not None and not ending.done and ending.end():
            ending.write()
    except FileNotFoundError:
        pass  # the spool is gone, and with it who reads the samples
    except Exception as error:
        if not _had_fault():
            sys.stderr.write(f"holter: the last samples were not written: {type(error).__name__}: {error}\n")


def _recorded() -> bool:
    """Return whether an adapter samples this process by its own rules."""
    current = _session()
    return current is not None and current.attached


def _had_fault() -> bool:
    """Return whether the recorder of this process had a fault, and so has written its line already."""
    current = _session()
    return current is not None and bool(current.fault_counts)


def _session() -> Session | None:
    session = sys.modules.get("holter.recorder.session")
    return None if session is None else getattr(session, "current", None)


def _waits(code: CodeType) -> bool:
    return code.co_filename.endswith(_WAITS) and is_library(code)


def _before_fork() -> None:
    global _sampler
    if _sampler is not None and _sampler.done:
        _sampler = None
    if _sampler is not None:
        _sampler.end()


def _after_fork() -> None:
    if _sampler is not None:
        _sampler.begin()


def _in_child() -> None:
    global _sampler
    if _sampler is not None:
        _sampler = ProgramSampler(_sampler._directory, time.perf_counter_ns())
        _sampler.begin()
