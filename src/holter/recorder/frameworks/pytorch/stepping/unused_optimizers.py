"""Finds out that a script has an optimizer and never steps it: it updates its parameters itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
    from holter.recorder.frameworks.pytorch.stepping.steps import StepClock
    from holter.recorder.patches import Patches

PATIENCE = 100
"""Backward passes that an optimizer may accumulate before its first step."""


class UnusedOptimizers:
    """Counts backward passes until the first step of an optimizer, and ends the wait for one."""

    def __init__(self, adapter: AdapterState, clock: StepClock) -> None:
        self._adapter = adapter
        self._clock = clock
        self._passes = 0

    def attach(self, patches: Patches) -> None:
        """Look at each backward pass until it is decided."""
        self._adapter.before_end.append(self._look)
        patches.later(self._stop)

    def _look(self, began: int) -> None:
        del began
        if self._clock.known:
            self._stop()
        elif self._adapter.predicting is False:  # an optimizer was made
            self._passes += 1
            if self._passes > PATIENCE or not self._clock.awaited:
                self._adapter.predicting = None  # from now on, backward passes end steps
                self._stop()

    def _stop(self) -> None:
        # A new list, because the calls of the present one are being made.
        self._adapter.before_end = [call for call in self._adapter.before_end if call != self._look]
