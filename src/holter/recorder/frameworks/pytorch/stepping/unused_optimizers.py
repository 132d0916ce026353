"""Finds optimizers that exist and never step: the script updates its parameters itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
    from holter.recorder.frameworks.pytorch.stepping.steps import StepClock
    from holter.recorder.patches import Patches

PATIENCE = 100
"""Backward passes without a step of an optimizer, after which the optimizers that exist count as unused."""


class UnusedOptimizers:
    """Counts backward passes until an optimizer steps; after `PATIENCE` passes, a pass ends a step."""

    def __init__(self, adapter: AdapterState, clock: StepClock) -> None:
        self._adapter = adapter
        self._clock = clock
        self._passes = 0

    def attach(self, patches: Patches) -> None:
        """Count from the next backward pass on."""
        self._adapter.before_end.append(self._look)
        patches.later(self._stop)

    def _look(self, began: int) -> None:
        del began
        if self._clock.known:
            self._stop()
        elif self._adapter.predicting is False:  # an optimizer was made
            self._passes += 1
            if self._passes > PATIENCE or not self._clock.awaited:
                self._adapter.predicting = None  # as if no optimizer had been made
                self._stop()

    def _stop(self) -> None:
        # A new list: `_look` may be called from a loop over the present one.
        self._adapter.before_end = [call for call in self._adapter.before_end if call != self._look]
