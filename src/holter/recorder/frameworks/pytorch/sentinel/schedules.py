"""Counts the calls of schedules of learning rates, and reads the length that they were given."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
    from holter.recorder.patches import Patches

_LENGTHS = ("T_max", "total_steps", "total_iters")
_MOST = 8
"""Schedules that are remembered, the latest ones."""


class Schedules:
    """Remembers the schedules that the training makes, referred to weakly."""

    def __init__(self, adapter: AdapterState) -> None:
        self.adapter = adapter
        self.breaker = adapter.breaker("sentinel_schedules")
        self._made: list[tuple[weakref.ref[Any], int]] = []

    def attach(self, patches: Patches) -> None:
        """Hear of new schedules."""
        module = self.adapter.torch.optim.lr_scheduler
        owner = getattr(module, "LRScheduler", None) or module._LRScheduler
        patches.after(owner, "__init__", self._on_new, self.breaker)

    def _on_new(self, result: None, schedule: Any, *_: Any, **__: Any) -> None:
        alive = [held for held in self._made if held[0]() is not None]
        self._made = [*alive[1 - _MOST :], (weakref.ref(schedule), self.adapter.session.step)]

    def facts(self) -> list[dict[str, Any]]:
        """Return class, calls and length of each schedule, and the step at which it was made."""
        found = []
        for reference, since in self._made:
            schedule = reference()
            steps = getattr(schedule, "last_epoch", None)
            if schedule is None or not isinstance(steps, int):
                continue
            lengths = (getattr(schedule, name, None) for name in _LENGTHS)
            length = next((one for one in lengths if isinstance(one, int)), None)
            found.append(
                {"class": type(schedule).__qualname__, "steps": steps, "length": length, "since": since}
            )
        return found
