"""Tells models that are trained and evaluated in turn from those that are only evaluated."""

from __future__ import annotations

import weakref
from contextlib import suppress
from typing import Any

TRAINED = 1.0
"""`value` of the forward pass in evaluation mode of a model that alternates."""
_TURNS = 2
"""A model is in training mode when it is made, so the first call of `eval` says nothing."""


class Alternating:
    """Counts how often models turn from training to evaluation mode."""

    def __init__(self) -> None:
        self._turns: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def note(self, module: Any) -> None:
        """Note a module whose method `eval` is about to be called."""
        with suppress(TypeError):  # a class may forbid hashing
            if module.training:
                self._turns[module] = self._turns.get(module, 0) + 1

    def value(self, module: Any) -> float:
        """Return the value of a pass of a module in evaluation mode."""
        with suppress(TypeError):
            if self._turns.get(module, 0) >= _TURNS:
                return TRAINED
        return float("nan")
