"""Times every call with cProfile: one profile for each segment of a step."""

from __future__ import annotations

import cProfile
import os
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from holter.recorder.profilers import ProfilerUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

RECORDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""Folder of the recorder: its own functions are not part of the profile."""
MAX_WAITING = 64
"""Profiles in memory before they are written; each may take some 100 kB."""
MAX_ROWS = 4_000_000
"""Rows of one window; later profiles are only counted."""


def _off_cpu_ns() -> int:
    return time.perf_counter_ns() - time.thread_time_ns()


CLOCKS: dict[str, Callable[[], int]] = {
    "total_time": time.perf_counter_ns,
    # Of the thread, not of the process: work of other threads would hide that this one waits.
    "cpu_time": time.thread_time_ns,
    "off_cpu_time": _off_cpu_ns,
}


@dataclass(slots=True)
class ProfileSegment:
    """A part of a step, from one cut to the next."""

    step: int
    phase: str
    mode: int
    timer: str
    begin: int = 0
    end: int = 0


class CallProfile:
    """cProfile, started anew at each cut."""

    def __init__(self) -> None:
        self._current: tuple[ProfileSegment, cProfile.Profile, int] | None = None
        self._waiting: list[tuple[ProfileSegment, cProfile.Profile, int]] = []
        self._rows = self._dropped = 0

    def start(self) -> None:
        """Do nothing: the first segment begins the profile."""

    def full(self) -> bool:
        """Whether many segments wait to be written."""
        return len(self._waiting) >= MAX_WAITING

    def cut(self, segment: ProfileSegment | None) -> None:
        """End the profile that runs; begin one for `segment`."""
        if self._current is not None:
            ended, profile, began = self._current
            self._current = None
            profile.disable()
            self._waiting.append((ended, profile, CLOCKS[ended.timer]() - began))
        if segment is not None:
            clock = CLOCKS[segment.timer]
            # cProfile's own clock is the one of total_time, and faster than a call of it.
            profile = cProfile.Profile() if segment.timer == "total_time" else cProfile.Profile(clock, 1e-9)
            self._current = (segment, profile, clock())
            try:
                profile.enable()
            except ValueError as error:  # Python 3.12 and later: one such tool at a time
                self._current = None
                raise ProfilerUnavailable(str(error)) from None

    def stop(self) -> None:
        """End the profile that runs."""
        self.cut(None)

    def documents(self, name: Callable[[Any], int]) -> Iterator[dict[str, object]]:
        """Yield one document for each segment: `functions` and `calls` with five and six numbers a row."""
        waiting, self._waiting = self._waiting, []
        for segment, profile, spent in waiting:
            if self._rows >= MAX_ROWS:
                self._dropped += 1
                continue
            functions: list[int] = []
            calls: list[int] = []
            entries = profile.getstats()
            own = _called_by_us(entries)
            for entry in entries:
                numbers = _numbers(entry)
                if entry.code in own:
                    numbers = tuple(max(a - b, 0) for a, b in zip(numbers, own[entry.code]))  # noqa: B905
                if _is_ours(entry.code) or not numbers[0]:
                    continue
                function = name(entry.code)
                functions += (function, *numbers)
                for callee in entry.calls or ():
                    if not _is_ours(callee.code):
                        calls += (function, name(callee.code), *_numbers(callee))
            self._rows += len(functions) // 5 + len(calls) // 6
            yield {**asdict(segment), "spent": spent, "functions": functions, "calls": calls}
        if self._dropped:
            yield {"dropped": self._dropped}
            self._dropped = 0


def _numbers(entry: Any) -> tuple[int, ...]:
    """Return all calls, calls without recursions, total time and own time in ns."""
    calls, nested = entry.callcount, entry.reccallcount
    # Time off the CPU is a difference of two clocks, which may decrease a little.
    total, own = (max(round(seconds * 1e9), 0) for seconds in (entry.totaltime, entry.inlinetime))
    return calls, calls - nested, total, own


def _called_by_us(entries: Iterable[Any]) -> dict[Any, tuple[int, ...]]:
    """Add up the calls of Python's built-in functions by the recorder, which belong to the recorder.

    Calls of framework functions by a wrapper of the recorder belong to the script.
    """
    found: dict[Any, tuple[int, ...]] = {}
    for entry in entries:
        if not isinstance(entry.code, str) and _is_ours(entry.code):
            for callee in entry.calls or ():
                if isinstance(callee.code, str) and "torch" not in callee.code:
                    before = found.get(callee.code, (0, 0, 0, 0))
                    found[callee.code] = tuple(a + b for a, b in zip(before, _numbers(callee)))  # noqa: B905
    return found


def _is_ours(code: Any) -> bool:
    if isinstance(code, str):
        return "_lsprof.Profiler" in code or "holter.recorder." in code  # the hot path, where it is compiled
    return bool(code.co_filename.startswith(RECORDER))
