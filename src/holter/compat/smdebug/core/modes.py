"""Modes and states of steps, under the names that smdebug gives them."""

from __future__ import annotations

from enum import Enum

from holter.tensors import StepState

__all__ = ["ModeKeys", "StepState", "modes"]


class ModeKeys(Enum):
    """What a step was for. GLOBAL as an argument means: whatever the mode, by the global count of steps."""

    TRAIN = 1
    EVAL = 2
    PREDICT = 3
    GLOBAL = 4

    @property
    def label(self) -> str | None:
        """How holter calls it when it is asked for; None for any."""
        return None if self is ModeKeys.GLOBAL else self.name.lower()

    @classmethod
    def of(cls, label: str) -> ModeKeys:
        """Return the mode that holter calls so."""
        return cls[label.upper()]


modes = ModeKeys
