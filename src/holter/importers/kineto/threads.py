"""Number the threads of a trace, whatever it calls them."""

from __future__ import annotations

from array import array
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_THREAD, _PROCESS, _OWN = attrgetter("pid", "tid"), attrgetter("pid"), attrgetter("tid")


class ThreadNumbers(dict[tuple[Any, Any], int]):
    """Numbers threads: by their own number, unless another process has one of that number."""

    def __init__(self) -> None:
        self._taken: set[int] = set()

    def __missing__(self, key: tuple[Any, Any]) -> int:
        told = whole(key[1])
        if told is not None and str(told) == key[1]:
            return self[key[0], told]  # the first versions of torch.profiler wrote the number as text
        number = told if told is not None and told not in self._taken else -2 - len(self)
        self._taken.add(number)
        self[key] = number
        return number

    def numbers(self, events: Sequence[Any]) -> NDArray[np.int64]:
        """Return the number of each event's thread."""
        try:
            processes, threads = (
                np.frombuffer(array("q", [*map(part, events)]), np.int64) for part in (_PROCESS, _OWN)
            )
        except (TypeError, OverflowError, ValueError):  # some are texts, or missing
            return np.fromiter(map(self.__getitem__, map(_THREAD, events)), np.int64, len(events))
        return self.numbers_of(processes, threads)

    def numbers_of(self, processes: NDArray[np.int64], threads: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of threads, each by its process and its own number in the trace."""
        if not len(threads):
            return np.zeros(0, np.int64)
        # Events come thread by thread for a while: one look at each change.
        changes = (processes[1:] != processes[:-1]) | (threads[1:] != threads[:-1])
        firsts = np.concatenate(([0], np.flatnonzero(changes) + 1))
        runs = zip(processes[firsts].tolist(), threads[firsts].tolist(), strict=True)
        numbers = np.fromiter(map(self.__getitem__, runs), np.int64, len(firsts))
        return np.repeat(numbers, np.diff(firsts, append=len(threads)))


def whole_or(value: object, default: int = -1) -> int:
    """Return the number that a number or text is, or the default."""
    return default if (number := whole(value)) is None else number


def whole(value: Any) -> int | None:
    """Return the number that a number or text is, if it is one that fits 64 bits."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if -(2**63) <= number < 2**63 else None
