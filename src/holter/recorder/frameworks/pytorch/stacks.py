"""Sample what a dataset is doing: a slow thread that looks at the stack of the one that builds batches.

It works for any dataset, sees Python frames only, and pays for itself: it runs at a low rate that falls
further where a look is dear, and sleeps while no batch is being built.
"""

from __future__ import annotations

import os
import random
import sys
import threading
from time import perf_counter_ns, thread_time_ns
from typing import TYPE_CHECKING, Any

from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import CodeType, FrameType

    from holter.recorder.session import Session

INTERVAL_S = 0.02
COST_SHARE = 200
"""A look may cost one part in this many of the time between looks."""
MAX_FRAMES = 8
MAX_PATHS = 4096
IDLE_S = 1.0
_MAX_DEPTH = 256
_STACK = int(Phase.STACK)
_TOO_MANY = "(other)"


class Fetching:
    """Which thread builds a batch now, and for how long batches were being built in all."""

    __slots__ = ("active", "began", "collate_began", "thread")

    def __init__(self) -> None:
        self.thread = 0
        self.began = 0
        """Begin of the stretch that counts, ns; 0 while no batch is being built."""
        self.collate_began = 0
        self.active = 0
        """Nanoseconds spent on samples so far, the stretch that runs now not included."""

    def start(self, now: int) -> None:
        """The calling thread works on samples from now on."""
        self.thread = threading.get_ident()
        self.began = now

    def stop(self, now: int) -> None:
        """It does so no more."""
        if self.began:
            self.active += now - self.began
            self.began = 0

    def total(self, now: int) -> int:
        """Nanoseconds spent on samples until `now`."""
        began = self.began
        return self.active + (now - began if began else 0)


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
        # Not the module's generator: its state belongs to the user.
        self._random = random.Random(self.pid)  # noqa: S311
        threading.Thread(target=self._run, name="holter-stacks", daemon=True).start()

    def wake(self) -> None:
        """Batches are being built again."""
        self.asleep = False
        self._awake.set()

    def stop(self) -> None:
        """End the thread, soon."""
        self._stopped = True
        self._awake.set()

    def _run(self) -> None:
        collector = self._session.collector("pytorch.stacks")
        fetching = self._fetching
        interval = INTERVAL_S
        stood_for = 0
        looked = perf_counter_ns()
        # Random intervals, so that no rhythm of the dataset hides from us.
        while not self._stopped and collector.on:
            if self._awake.wait(interval * (0.5 + self._random.random())):
                self._awake.clear()
            try:
                now = perf_counter_ns()
                if not fetching.began:
                    if now - looked > IDLE_S * 1e9:
                        self.asleep = True
                        if not fetching.began and not self._stopped:
                            self._awake.wait()
                    continue
                paths = self._paths.count
                cpu = thread_time_ns()
                name = self._look()
                if name:
                    looked = perf_counter_ns()
                    total = fetching.total(now)
                    if total > stood_for:
                        self._session.marks().add(_STACK, name, now, total - stood_for)
                    stood_for = total
                if self._paths.count == paths:  # naming a new path is dear, but does not recur
                    cost = (thread_time_ns() - cpu) / 1e9
                    interval = max(INTERVAL_S, 0.7 * interval + 0.3 * cost * COST_SHARE)
            except Exception as error:
                collector.fault(error)

    def _look(self) -> int:
        frame = sys._current_frames().get(self._fetching.thread)
        return 0 if frame is None else self._paths.name(frame)


class Paths:
    """Names of stacks: frames below the fetch of a batch, outermost first, joined by `;`."""

    def __init__(self, session: Session, fetch_codes: tuple[CodeType, ...]) -> None:
        self._session = session
        self._fetch_codes = fetch_codes
        # By identity, since comparing code objects reads all of them; they are kept alive, so ids are theirs.
        self._known: dict[tuple[int, ...], tuple[list[CodeType], int]] = {}
        self.count = 0
        """Paths named so far."""

    def name(self, frame: FrameType | None) -> int:
        """Return the name id of the stack whose innermost frame this is; 0 when it is in no fetch."""
        codes: list[CodeType] = []
        line = 0
        top = frame
        while frame is not None:
            code = frame.f_code
            if any(code is each for each in self._fetch_codes):
                break
            codes.append(code)
            frame = frame.f_back
            if len(codes) > _MAX_DEPTH:
                return 0
        else:
            return 0
        codes.reverse()
        kept = _worth_naming(codes)
        if not kept:
            return 0
        if len(kept) == 1 and top is not None:
            # The dataset's own code: its lines are told apart.
            while top is not None and top.f_code is not kept[0]:
                top = top.f_back
            line = 0 if top is None else top.f_lineno or 0
        key = (*map(id, kept), line)
        known = self._known.get(key)
        if known is None:
            if self.count >= MAX_PATHS:
                return self._session.name(_TOO_MANY)
            self.count += 1
            known = self._known[key] = (kept, self._session.name(_text(kept, line)))
        return known[1]


def _worth_naming(codes: list[CodeType]) -> list[CodeType]:
    """Leave out wrapping datasets in front, the plumbing of module calls, and what is too deep."""
    kept = [code for code in codes if not code.co_filename.endswith(_PLUMBING)]
    kept = [code for code in kept if not code.co_filename.startswith(_OURS)]
    first = next((i for i, code in enumerate(kept) if _WRAPPING not in code.co_filename), None)
    kept = kept[-1:] if first is None else kept[first:]
    excess = len(kept) - MAX_FRAMES
    if excess > 0:
        # From the middle, libraries' frames first: both ends and the user's own say most.
        middle = range(1, len(kept) - 1)
        dropped = sorted(middle, key=lambda i: (not _is_library(kept[i]), abs(i - len(kept) / 2)))[:excess]
        kept = [code for i, code in enumerate(kept) if i not in dropped]
    return kept


_WRAPPING = os.path.join("torch", "utils", "data", "")
_PLUMBING = os.path.join("torch", "nn", "modules", "module.py")
_OURS = os.path.dirname(os.path.abspath(__file__))


def _is_library(code: CodeType) -> bool:
    name = code.co_filename
    return "site-packages" in name or name.startswith((sys.prefix, sys.base_prefix, "<frozen"))


def _text(codes: Iterable[CodeType], line: int) -> str:
    return ";".join(_frame_text(code, line or code.co_firstlineno) for code in codes)


def _frame_text(code: CodeType, line: int) -> str:
    name: Any = getattr(code, "co_qualname", code.co_name)  # Python 3.10 knows the bare name only
    return f"{name} ({_short(code.co_filename)}:{line})".replace(";", ",").replace("<locals>.", "")


def _short(path: str) -> str:
    """Return the path below the entry of `sys.path` that holds it."""
    best = ""
    for entry in sys.path:
        if entry and len(entry) > len(best) and path.startswith(entry + os.sep):
            best = entry
    return path[len(best) + 1 :] if best else path
