"""The moments at which rules are evaluated: a fixed grid of the job's time, so results are repeatable."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holter.rules import Rule

SECOND = 1_000_000_000
EARLY_S, EARLY_EVERY_S, EVERY_S = 60, 2, 10
"""Rules are evaluated every 2 s in the first 60 s, so that short jobs are judged, and then every 10 s."""
OLDER, LONGEST_S = 0.01, 120
"""In a long job the interval grows with this share of the job's age, up to this length."""
LONGEST_CRITICAL_S = 30
"""The longest interval of rules whose issues are critical."""


def grid(start: int, after: int, until: int) -> Iterator[int]:
    """Yield the moments after `after` up to `until` of a job that began at `start`; ns since the epoch."""
    while True:
        elapsed = after - start
        every = (EARLY_EVERY_S if elapsed < EARLY_S * SECOND else EVERY_S) * SECOND
        after = start + (elapsed // every + 1) * every
        if after > until:
            return
        yield after


def spacing(rule: Rule) -> Callable[[int], int]:
    """Return a function from the age of the job to the interval between two evaluations of a rule, both ns.

    The interval is never longer than the rule's lookback, so that no row falls between two evaluations.
    """
    every_s = float(type(rule).every_s)
    longest = float(LONGEST_CRITICAL_S if type(rule).severity == "critical" else LONGEST_S)
    longest = min(longest, rule.lookback.seconds or longest)

    def between(elapsed_ns: int) -> int:
        if elapsed_ns <= EARLY_S * SECOND:
            return 0
        return round(max(every_s, min(OLDER * elapsed_ns / SECOND, longest)) * SECOND)

    return between
