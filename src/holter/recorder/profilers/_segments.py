"""Segments of a profiled step, and the contract of the engines that fill them with functions."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

RECORDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""Folder of the recorder: its own functions are not part of the profile."""


class ProfileSegment:
    """A part of a step, from one cut to the next."""

    __slots__ = ("begin", "end", "mode", "phase", "step", "timer")

    def __init__(self, step: int, phase: str, mode: int, timer: str) -> None:
        self.step, self.phase, self.mode, self.timer = step, phase, mode, timer
        self.begin = self.end = 0

    def told(self) -> dict[str, Any]:
        """Return it as the file holds it."""
        return {name: getattr(self, name) for name in self.__slots__}


class PythonEngine(Protocol):
    """One of the profilers."""

    def start(self) -> None:
        """Begin; raises `Unavailable`."""

    def cut(self, segment: ProfileSegment | None) -> None:
        """End the segment that is open, and begin another unless None."""

    def stop(self) -> None:
        """End for good, without a trace."""

    def documents(self, name: Callable[[Any], int]) -> Iterable[Mapping[str, Any]]:
        """Yield what was found, with functions as numbers that `name` gives for what a function is."""

    def full(self) -> bool:
        """Whether so much waits that `documents` should be asked for now."""
