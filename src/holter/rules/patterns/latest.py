"""Looks up logged numbers, such as the learning rate or a loss, at steps of tensors."""

from __future__ import annotations

import math
from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

from holter.rules import Window
from holter.rules.engine.table_json import column
from holter.rules.patterns.collections import matches, tested
from holter.rules.patterns.logged import ANY_LOSS

LR = (r"^lr($|[/_.-])", r"(?i)^learning_rate")
LOSS = (ANY_LOSS,)
_MOST = 4096
"""The most steps of one rank that are kept."""


class Latest:
    """The latest value of one number by rank and step; the largest of several at one step."""

    def __init__(self, window: Window, patterns: tuple[str, ...]) -> None:
        """Read the new scalars whose names match; `window.state["numbers"]` keeps them for later windows."""
        kept: dict[str, list[list[float]]] = window.state.get("numbers", {})
        found: dict[int, dict[int, float]] = {
            int(rank): {int(step): value for step, value in pairs} for rank, pairs in kept.items()
        }
        scalars = window.new("scalars")
        rows = scalars.where(tested(scalars["name"], lambda name: matches(patterns, name)))
        columns = (rows[c].tolist() for c in ("rank", "step", "value"))
        for rank, step, value in zip(*columns, strict=True):
            if math.isfinite(value):
                mine = found.setdefault(rank, {})
                mine[step] = max(mine.get(step, -math.inf), value)
        self._steps = {rank: sorted(mine) for rank, mine in found.items()}
        self._found = found
        window.state["numbers"] = {str(rank): self._needed(window, rank) for rank in found}

    def _needed(self, window: Window, rank: int) -> list[list[float]]:
        """Return the values that later windows need: from before the first step that still waits."""
        waiting = [
            int(mine.min())
            for table in window.state.get("waiting", {}).values()
            if (mine := column(table, "step", np.int64)[_of(column(table, "rank", np.int64), rank)]).size
        ]
        steps = self._steps[rank]
        low = max(0, (bisect_right(steps, min(waiting)) if waiting else len(steps)) - 2)
        return [[step, self._found[rank][step]] for step in steps[low:][-_MOST:]]

    def at(self, rank: int, step: int) -> float | None:
        """Return the number at a step, logged there or before; rank -1 uses the first rank."""
        rank = rank if rank >= 0 else min(self._steps, default=rank)
        steps = self._steps.get(rank, [])
        place = bisect_right(steps, step)
        return self._found[rank][steps[place - 1]] if place else None

    def rises(self, rank: int, step: int) -> bool:
        """Return whether it was larger at a step than at the one before."""
        now = self.at(rank, step)
        before = self.at(rank, step - 1)
        return now is not None and before is not None and now > before


def _of(ranks: NDArray[np.int64], rank: int) -> NDArray[np.bool_]:
    """Return which rows need the numbers of a rank: its own rows, and those of all ranks together."""
    return np.asarray((ranks == rank) | (ranks < 0))
