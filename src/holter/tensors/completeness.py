"""Whether a step is there, will never be, or may still come, while several ranks write."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Set

WINDOW = 1000
"""So many steps may wait for a rank before the older half of them is given up."""


class StepState(Enum):
    """What is known of a step."""

    UNAVAILABLE = 0
    """It was skipped, or the job ended before it."""
    AVAILABLE = 1
    NOT_YET_AVAILABLE = 2


class Completeness:
    """Follows which ranks have saved which steps.

    A step is complete when every rank has saved it, or a later step is complete, or the job has ended.
    """

    def __init__(self, window: int = WINDOW) -> None:
        self.last_complete_step = -1
        self.loaded = False
        """Whether the job has ended and all it saved was seen."""
        self._window = window
        self._steps: dict[str | None, list[int]] = {}
        self._full: set[int] = set()

    def update(
        self, saved: Mapping[tuple[int, str], Set[int]], expected: Set[int], *, ended: bool = False
    ) -> None:
        """Take in what was saved so far.

        Args:
            saved: For each step and mode, the ranks that saved something.
            expected: The ranks that save.
            ended: Nothing will come any more.
        """
        by_mode: dict[str | None, set[int]] = defaultdict(set)
        lacking: set[int] = set()
        for (step, mode), ranks in saved.items():
            by_mode[mode].add(step)
            by_mode[None].add(step)
            if not expected <= ranks:
                lacking.add(step)
        self._full = by_mode[None] - lacking
        self._steps = {mode: sorted(steps) for mode, steps in by_mode.items()}
        every = self._steps.setdefault(None, [])
        self.last_complete_step = max(self.last_complete_step, max(self._full, default=-1))
        if self.behind:
            self.last_complete_step += self._window // 2
        if ended:
            self.loaded = True
            self.last_complete_step = max(self.last_complete_step, max(every, default=-1))

    @property
    def behind(self) -> bool:
        """Tell whether so many steps wait for a rank that some are to be given up."""
        return len(self._steps.get(None, [])) - (self.last_complete_step + 1) > self._window

    @property
    def modes(self) -> list[str]:
        """Modes in which something was saved."""
        return sorted(mode for mode in self._steps if mode is not None)

    def steps(self, mode: str | None = None, *, incomplete: bool = False) -> list[int]:
        """Return the steps at which something was saved, in order: complete ones, or all."""
        steps = self._steps.get(mode, [])
        return list(steps) if incomplete else [step for step in steps if self.complete(step)]

    def complete(self, step: int) -> bool:
        """Tell whether no rank will add anything to a step that was saved."""
        return self.loaded or step <= self.last_complete_step or step in self._full

    def state(
        self, step: int, mode: str | None = None, counted: Mapping[int, int] | None = None
    ) -> StepState:
        """Tell whether a step is there, will never be, or may still come.

        Args:
            step: The step; by the mode's own count when `counted` is given.
            mode: Only what was saved in this mode.
            counted: For a mode that counts its own steps: its count → the global step.
        """
        seen = self._steps.get(mode, [])
        if counted is not None:
            known = set(seen)
            seen = sorted(own for own, step_ in counted.items() if step_ in known)
        at = bisect_left(seen, step)
        if at == len(seen):
            return StepState.UNAVAILABLE if self.loaded else StepState.NOT_YET_AVAILABLE
        found = seen[at] if counted is None else counted[seen[at]]
        if seen[at] == step:
            return StepState.AVAILABLE if self.complete(found) else StepState.NOT_YET_AVAILABLE
        passed = self.last_complete_step >= found
        return StepState.UNAVAILABLE if passed else StepState.NOT_YET_AVAILABLE
