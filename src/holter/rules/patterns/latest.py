"""Looks up logged numbers, such as the learning rate or a loss, at steps of tensors."""

from __future__ import annotations

import math
from bisect import bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from holter.rules.engine.table_json import column
from holter.rules.patterns.collections import matches, tested
from holter.rules.patterns.logged import ANY_LOSS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.rules import Window

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
        self._series = {rank: sorted(mine.items()) for rank, mine in found.items()}
        window.state["numbers"] = {str(rank): self._needed(window, rank) for rank in found}

    def _needed(self, window: Window, rank: int) -> list[list[float]]:
        """Return the values that later windows need: from before the first step that still waits."""
        waiting = [
            int(mine.min())
            for table in window.state.get("waiting", {}).values()
            if (mine := column(table, "step", np.int64)[_of(column(table, "rank", np.int64), rank)]).size
        ]
        series = self._series[rank]
        place = bisect_right(series, min(waiting), key=itemgetter(0)) if waiting else len(series)
        return [list(pair) for pair in series[max(0, place - 2) :][-_MOST:]]

    def at(self, rank: int, step: int) -> float | None:
        """Return the number at a step, logged there or before; rank -1 uses the first rank."""
        series = self._series.get(rank if rank >= 0 else min(self._series, default=rank), [])
        place = bisect_right(series, step, key=itemgetter(0))
        return series[place - 1][1] if place else None

    def rises(self, rank: int, step: int) -> bool:
        """Return whether it was larger at a step than at the one before."""
        now = self.at(rank, step)
        before = self.at(rank, step - 1)
        return now is not None and before is not None and now > before


def _of(ranks: NDArray[np.int64], rank: int) -> NDArray[np.bool_]:
    """Return which rows need the numbers of a rank: its own rows, and those of all ranks together."""
    return np.asarray((ranks == rank) | (ranks < 0))
