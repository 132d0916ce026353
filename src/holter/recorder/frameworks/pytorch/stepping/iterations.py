"""Detects iterations over a loader in which several optimizers step at different rates.

A critic may step with every batch and the generator with each fifth: no optimizer ends every iteration. So a
step also ends where its loader is asked for the next batch, once any optimizer has stepped in it. A batch
alone ends nothing: gradients may be accumulated over several, and an iteration may take batches of several
loaders.
"""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
    from holter.recorder.frameworks.pytorch.stepping.steps import StepClock


class Iterations:
    """Ends the steps that no optimizer has ended."""

    def __init__(self, adapter: AdapterState, clock: StepClock) -> None:
        self.adapter = adapter
        self.clock = clock
        self._fetched: tuple[int, Any] | None = None
        """The step that began with a batch, and its loader."""

    def next_batch(self, iterator: Any) -> None:
        """A batch is asked for, on any thread."""
        session, loader = self.adapter.session, getattr(iterator, "_holter_loader", None)
        if self.clock.unended == get_ident() and self._fetched == (session.step, loader):
            self.clock.end_iteration()
        if self._fetched is None or self._fetched[0] != session.step:
            self._fetched = session.step, loader
