"""Decides where an iteration ends when several models, functions or optimizers train in turn."""

from __future__ import annotations

PATIENCE = 6
"""Trainings of the first one after which nothing waits any longer for those that never trained."""
SETTLED = 10
"""Iterations that one must end to remain the last of an iteration when another trains occasionally."""


class Turns:
    """The last one that trains in an iteration ends it. All are named by keys, such as ids.

    At first, the first one that trains is the last. When others train before it trains again, the last of
    those takes its place. What exists but has not trained is waited for: the first iteration is then whole.
    What appears later takes the place at once, and another one that trains more often than an iteration does.
    """

    def __init__(self) -> None:
        self._expected: set[int] = set()
        self._known: set[int] = set()
        self._last = self._other = self._held = self._ended = self._since = 0
        self._cycle = 1
        self._settled = False

    def expect(self, key: int) -> None:
        """Wait for the first training of a new one."""
        self._expected.add(key)

    def forget(self, key: int) -> None:
        """Wait no longer for one that trains elsewhere."""
        self._expected.discard(key)

    def ends(self, key: int) -> bool:
        """Return whether an iteration ends with this training."""
        if key == self._last and self._settled and not self._expected and not self._since:
            return True
        self._since += 1
        self._expected.discard(key)
        new = key not in self._known
        self._known.add(key)
        if not self._last:
            self._last = key
        elif key == self._last:
            if self._other and not self._settled:
                # The iteration that began with this one has ended with the other.
                self._last, self._settled, self._other, self._since = self._other, True, 0, 1
                return False
        elif self._held and not self._expected:
            self._last, self._settled = key, True
        else:
            self._other = key
            if self._since <= self._cycle and not (new and self._ended >= SETTLED):
                return False
            self._last, self._settled = key, False
        if self._expected and not (self._settled or self._ended) and self._held < PATIENCE:
            self._held += 1
            return False
        self._cycle, self._since, self._other, self._held = self._since, 0, 0, 0
        self._ended += 1
        self._settled = self._settled or self._ended == SETTLED
        return True
