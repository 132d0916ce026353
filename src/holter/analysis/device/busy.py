"""Computes how busy accelerators are over time, for the recorded intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from holter.analysis.device.time_breakdown import split
from holter.analysis.intervals import Intervals, difference, measure, union

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from holter.analysis.device.work import Ints, Work

LEAST_BIN_NS = 10_000_000
"""Shorter stretches of a utilization over time tell of single kernels, not of load."""


class Activity(NamedTuple):
    """One accelerator: when it was looked at, and when it ran anything then."""

    looked: Intervals
    ran: Intervals


def activity(work: Work, windows: Mapping[int, Intervals]) -> dict[tuple[int, int], Activity]:
    """Return when each rank's device ran anything.

    Args:
        work: What accelerators ran.
        windows: The windows of each rank. Of one without any, the time from its device's first begin to its
            last end was looked at, as in `time_breakdown`.
    """
    found = {}
    for (rank, device), part in split(work):
        ran = union(part.begin, part.end)
        looked = windows.get(rank, union([part.begin.min()], [part.end.max()]))
        found[rank, device] = Activity(looked, difference(ran, difference(ran, looked)))
    return found


def busy_pct(of: Activity, edges: Ints) -> NDArray[np.float64]:
    """Return how much of each stretch between two edges a device ran, percent of the part looked at.

    NaN where it was not looked at.
    """
    inside = measure(of.looked, edges[:-1], edges[1:]).astype(np.float64)
    spent = measure(of.ran, edges[:-1], edges[1:])
    none = np.full(len(inside), np.nan)
    return np.asarray(np.divide(100.0 * spent, inside, out=none, where=inside > 0))
