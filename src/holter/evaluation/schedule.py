"""When rules look: fixed moments of the job's own time, so that the same data give the same findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holter.rules import Rule

SECOND = 1_000_000_000
EARLY_S, EARLY_EVERY_S = 60, 2
"""In the first minute the rules look every two seconds, so that a short job is judged too …"""
EVERY_S = 10
"""… afterwards every ten seconds of data …"""
OLDER = 0.01
"""… and in a long job when it is so much older: what held for an hour need not be told to the second …"""
LONGEST_S = 120
"""… but at least every two minutes."""
LONGEST_CRITICAL_S = 30
"""The same for rules whose findings are critical."""


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
    """Return what tells how many ns lie between two looks of a rule, once the job is so old, ns.

    It never is longer than the rule looks back, so that nothing falls between two looks.
    """
    every_s = float(type(rule).every_s)
    longest = float(LONGEST_CRITICAL_S if type(rule).severity == "critical" else LONGEST_S)
    longest = min(longest, rule.lookback.seconds or longest)

    def between(elapsed_ns: int) -> int:
        if elapsed_ns <= EARLY_S * SECOND:
            return 0
        return round(max(every_s, min(OLDER * elapsed_ns / SECOND, longest)) * SECOND)

    return between
