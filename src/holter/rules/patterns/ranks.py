"""Scalars as series: the values of one name by step, for each rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from holter.rules.patterns.logged import trained

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.schema.table import Table


class Scalars(NamedTuple):
    """The finite values of one scalar of one rank, one per step, in the order of steps."""

    node: str
    step: NDArray[np.int64]
    value: NDArray[np.float64]
    time: NDArray[np.int64]

    @property
    def span(self) -> dict[str, int]:
        """The first and the last step and their times, for an issue."""
        steps = {"step_start": int(self.step[0]), "step_end": int(self.step[-1])}
        return {**steps, "time_start": int(self.time[0]), "time_end": int(self.time[-1])}


def by_rank(scalars: Table, name: str) -> dict[int, Scalars]:
    """Return a scalar of training steps for each rank; of several values at one step the largest."""
    known = (scalars["name"] == name) & np.isfinite(scalars["value"]) & (scalars["step"] >= 0)
    rows = scalars.where(known & trained(scalars))
    found = {}
    for rank in np.unique(rows["rank"]).tolist():
        one = rows.where(rows["rank"] == rank)
        order = np.lexsort((one["time"], one["value"], one["step"]))
        step = one["step"][order].astype(np.int64)
        last = np.concatenate([step[1:] != step[:-1], [True]])
        chosen = order[last]
        found[int(rank)] = Scalars(
            str(min(one["node"].tolist())),
            step[last],
            one["value"][chosen].astype(np.float64),
            one["time"][chosen],
        )
    return found


def last(series: Scalars, steps: int) -> Scalars:
    """Return the last values."""
    return Scalars(series.node, series.step[-steps:], series.value[-steps:], series.time[-steps:])
