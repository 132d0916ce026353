"""What the clock judges may be tried more than once."""

from __future__ import annotations

from collections.abc import Callable

TRIES = 3


def again(attempt: Callable[[int], None]) -> None:
    """Try a few times, with the number of the attempt, until one holds.

    What else a machine does makes one training slow, and a verdict on its times says so rightly: the next
    training is another. What holter gets wrong it gets wrong each time.
    """
    for number in range(TRIES - 1):
        try:
            return attempt(number)
        except AssertionError as error:
            print(f"attempt {number + 1} of {TRIES}: {error}")  # pytest shows it if all fail
    return attempt(TRIES - 1)
