"""Limits the time for which saving stops the training.

Tensors of ordinary size are saved whenever they are due; the first step in which that took long is reported.
A tensor that is so large that it is read in pieces has a limit. If it would stop the training for longer than
`MOST_NS`, it is not saved. If it took longer than `SLOW_NS`, its next save comes after `REST` times as long.
Omitted saves count as dropped.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from holter.recorder.tensors.writing import TensorFiles

SLOW_NS = 1_000_000_000
"""A step in which saving takes longer is reported, once."""
MOST_NS = 10_000_000_000
"""One tensor never holds a training for much longer."""
REST = 10
"""A slow tensor takes at most one part in `REST` of a training's time."""


class TooLong(Exception):  # noqa: N818 - not an error
    """Reading a tensor would take this many nanoseconds."""

    def __init__(self, takes: int) -> None:
        super().__init__(takes)
        self.takes = takes


def in_time(pieces: Iterable[Any], total: int) -> Iterator[Any]:
    """Yield the pieces of a tensor of `total` elements; raises `TooLong` once their time shows it."""
    began, done = perf_counter_ns(), 0
    for piece in pieces:
        yield piece
        done += piece.numel()
        took = perf_counter_ns() - began
        if done < total and took > SLOW_NS and took * total > MOST_NS * done:
            raise TooLong(took * total // done)


class TimeBudget:
    """Measures the time of saving, and postpones tensors that take too much."""

    def __init__(self, files: TensorFiles, spent: Callable[[int], None] | None = None) -> None:
        self._files = files
        self._spent = spent
        self._step, self._sum = -1, 0
        self._next: dict[str, int] = {}
        """Times at which slow tensors may be saved again."""

    def held(self, began: int, step: int, name: str = "") -> None:
        """Add the time since `began`, for which saving stopped the training; `name` is set for one tensor."""
        took = perf_counter_ns() - began
        if self._spent is not None:
            self._spent(took)
        if step != self._step:
            if self._sum > SLOW_NS:
                self._tell_held(f"the tensors of step {self._step}", self._sum)
            self._step, self._sum = step, 0
        self._sum += took
        if name and took > SLOW_NS:
            self._tell_held(repr(name), took)

    def ready(self, name: str) -> bool:
        """Whether a large tensor may be saved now; if not, count a dropped save."""
        if perf_counter_ns() >= self._next.get(name, 0):
            return True
        self._files.drop("saves", 1)
        return False

    def took(self, name: str, nanoseconds: int) -> None:
        """Postpone the next save of a large tensor that took long."""
        if nanoseconds > SLOW_NS:
            self._put_off(name, nanoseconds)
            rest = REST * nanoseconds / 1e9
            self._files.tell_once("rest", f"{name!r} is so large that it is saved every {rest:.0f} s at most")

    def gave_up(self, name: str, size: int, nanoseconds: int) -> None:
        """Postpone a tensor of `size` bytes that was not saved because it would take too long."""
        self._put_off(name, nanoseconds)
        self._files.drop("saves", 1)
        seconds, gigabytes = nanoseconds / 1e9, size / 1e9
        self._files.tell_once(
            "gave up",
            f"{name!r} is not saved: its {gigabytes:.1f} GB would hold the training for {seconds:.0f} s"
            " each time; save a part of it",
        )

    def too_large(self, name: str, count: int, what: Iterable[str]) -> None:
        """Report that some kinds of values of a large tensor are not kept."""
        kinds = ", ".join(sorted(what))
        self._files.drop("saves", 1)
        self._files.tell_once(
            kinds, f"{name!r} has {count:,} elements, too many for: {kinds}; its statistics are saved"
        )

    def _put_off(self, name: str, nanoseconds: int) -> None:
        self._next[name] = perf_counter_ns() + REST * nanoseconds

    def _tell_held(self, what: str, nanoseconds: int) -> None:
        seconds = nanoseconds / 1e9
        self._files.tell_once(
            "held", f"saving {what} held the training for {seconds:.1f} s: save less often, or less of it"
        )
