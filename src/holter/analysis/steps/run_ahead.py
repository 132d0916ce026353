"""Divides what a loop waits for a device among the steps that it waits for.

A call may return before the device has computed it. Such a loop runs ahead: many steps take no time, and the
one that waits for the device takes that of all of them. None of them is slow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.steps.spread import median
from holter.analysis.steps.warmup import by_rank
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_TOLERANCE = 1.3
"""The device may take longer than measured by this factor: it is measured in few steps."""
_WAITING = ("compute", "other")
"""Parts in which a loop waits for the device."""


def paced(steps: Table, device_ns: Mapping[int, int]) -> Table:
    """Return the steps as if each took at least as long as the device needs for it.

    While the loop runs ahead, each step takes the device's time. As much is taken from the later steps in
    which the device catches up.

    Args:
        steps: Table `steps`; of each rank neighboring steps.
        device_ns: Rank → time that its device needs for a step. Ranks without one stay as they are.
    """
    columns = {name: steps[name] for name in steps.columns}
    for rows in by_rank(steps):
        duration = steps["duration"][rows]
        measured = device_ns.get(int(steps["rank"][rows[0]]), 0)
        # No loop is faster than its device.
        pace = min(_TOLERANCE * measured, _usual(duration, measured)) if measured else 0.0
        if pace <= median(duration):
            continue
        left = np.diff(_backlog(duration, pace), prepend=0.0).astype(np.int64)
        columns["duration"] = _changed(columns["duration"], rows, duration + left)
        for part in _WAITING:
            taken = np.maximum(steps[part][rows] + left, 0)
            left = left - (taken - steps[part][rows])
            columns[part] = _changed(columns[part], rows, taken)
    return Table(columns)


def _usual(duration: NDArray[Any], measured: int) -> float:
    """Return the mean duration of the steps from one wait for the device to the next, as it usually is.

    Calls that wait because too many others are under way do not end such a stretch.
    """
    ends = np.flatnonzero((duration > measured) & (_backlog(duration, measured) == 0)) + 1
    if not len(ends):
        return float(duration.mean())
    begins = np.concatenate([[0], ends[:-1]])
    means = np.add.reduceat(duration[: ends[-1]], begins) / (ends - begins)
    return median(np.repeat(means, ends - begins))


def _backlog(duration: NDArray[Any], pace: float) -> NDArray[Any]:
    """Return how long the device still computes after each step, if it needs `pace` for a step."""
    walk = np.cumsum(pace - duration)
    return walk - np.minimum(np.minimum.accumulate(walk), 0)


def _changed(column: NDArray[Any], rows: NDArray[np.int64], values: NDArray[Any]) -> NDArray[Any]:
    changed = column.copy()
    changed[rows] = values
    return changed
