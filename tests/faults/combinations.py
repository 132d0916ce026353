"""Combinations of who is struck, when, and how; which of them a run tries."""

from __future__ import annotations

import random
from dataclasses import dataclass

KINDS = {"trainer": ("plain", "torch"), "worker": ("worker",), "rank": ("ranks",)}
"""Kinds of training in which a process exists; the others are struck in any of them."""
STAGES = {
    "plain": ("start", "first", "step", "window", "end"),
    "worker": ("first", "step", "end"),
    "ranks": ("start", "first", "step", "end"),
    "torch": ("start", "first", "step", "save", "window", "end"),
}
AFTER = "closing"
"""The training has ended, and the agent stores its last records."""
ERRORS = ("ENOSPC", "EIO", "EROFS", "EDQUOT")
HOW = {
    "trainer": ("SIGKILL", "SIGTERM", "SIGSTOP", "SIGSEGV"),
    "worker": ("SIGKILL", "SIGSTOP"),
    "rank": ("SIGKILL", "SIGSTOP"),
    "agent": ("SIGKILL", "SIGSTOP"),
    "rules": ("SIGKILL", "SIGSTOP"),
    "dashboard": ("SIGKILL", "SIGSTOP"),
    "clock": ("hour back", "hour ahead", "year 2100"),
    "store": (
        *ERRORS,
        *(f"{error} for a while" for error in ERRORS),
        "missing",
        "moved for a while",
        "a file",
    ),
    "spool": (*ERRORS, *(f"{error} for a while" for error in ERRORS), "missing"),
    "segment": ("truncated", "overwritten"),
    "head": ("truncated", "overwritten"),
    "journal": ("truncated", "overwritten"),
    "orders": ("truncated", "overwritten"),
    "manifest": ("truncated", "overwritten"),
    "parquet": ("truncated", "overwritten"),
}
AFTER_THE_TRAINING = ("agent", "store", "manifest", "parquet", "clock")
RULES_START_S = 5.0


@dataclass(frozen=True)
class Combination:
    """One fault: `at` is where in a file, as a share of its length, or which call is the first to fail."""

    who: str
    when: str
    how: str
    kind: str = "plain"
    at: float = 0.5

    def __str__(self) -> str:
        """Write it as a test's name."""
        return f"{self.kind}: {self.who} {self.how} at {self.when}, {self.at:.3f}"

    @property
    def strikes_the_training(self) -> bool:
        """Whether the training would suffer without holter, too."""
        return self.who in ("trainer", "worker", "rank", "clock")


def all_of_them() -> list[tuple[str, str, str, str]]:
    """Return every (who, when, how, kind)."""
    found = []
    for who, ways in HOW.items():
        for kind in KINDS.get(who, STAGES):
            stages = STAGES[kind] + ((AFTER,) if who in AFTER_THE_TRAINING else ())
            found += [(who, when, how, kind) for when in stages for how in ways]
    return found


def sample(count: int, seed: int) -> list[Combination]:
    """Return different combinations: each (who, when, how, kind) once before any of them twice."""
    chance = random.Random(seed)
    found: list[Combination] = []
    while len(found) < count:
        some = all_of_them()
        chance.shuffle(some)
        found += [Combination(*one, at=chance.random()) for one in some]
    return found[:count]
